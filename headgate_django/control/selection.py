"""A selection of rows, fixed as ids before the first of them is touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet

from headgate_django.models.job import Job
from headgate_django.models.store import alias

MAX_SELECTED = 10_000
"""How many jobs of a queryset one call takes."""
BATCH = 500
"""How many rows one transaction touches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The ids, in the order they were given; ``more`` says that the queryset held more than the limit."""

    using: str
    ids: tuple[str, ...]
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """How many jobs of a selection exist, by kind and by state."""

    kinds: Mapping[str, int]
    states: Mapping[str, int]

    @property
    def total(self) -> int:
        """How many exist."""
        return sum(self.states.values())


def select(rows: QuerySet[Any] | Iterable[str], *, using: str = "", limit: int = MAX_SELECTED) -> Selection:
    """Fix the selection: explicit ids as they are, a queryset as the first ``limit`` ids of its order.

    One statement reads a queryset, so rows that come to match it a moment later are not swept in. It is read
    where the verbs write (its own ``using()``, else the queue's alias), never from a replica.
    """
    if isinstance(rows, QuerySet):
        using = using or rows._db or alias()  # type: ignore[attr-defined]
        ids = list(rows.using(using).values_list("pk", flat=True)[: limit + 1])
        return Selection(using=using, ids=tuple(ids[:limit]), more=len(ids) > limit)
    if isinstance(rows, str):
        raise TypeError("a selection is a queryset or several ids, not one str")
    return Selection(using=using or alias(), ids=tuple(dict.fromkeys(rows)))


def census(selection: Selection) -> Census:
    """Count the selection by kind and state, in bounded statements."""
    kinds: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for batch in batches(selection.ids):
        rows = Job.objects.using(selection.using).filter(pk__in=batch).order_by()
        for kind, state, count in rows.values_list("kind", "state").annotate(count=Count("pk")):
            kinds[kind] += count
            states[state] += count
    return Census(kinds=dict(kinds.most_common()), states=dict(states.most_common()))


def batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """The ids in slices of one transaction each."""
    for start in range(0, len(ids), BATCH):
        yield ids[start : start + BATCH]
