"""Step 3, what it reads: queue and partition policies, and the work in flight.

In flight is counted from running rows, never kept in a counter, so a crash cannot leak a slot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from headgate_django.core.admission import EVERY_QUEUE, Partitions, effective_weights
from headgate_django.core.allocation import Group, Stream
from headgate_django.core.states import State
from headgate_django.core.turnstile import Turnstile
from headgate_django.core.walk import Cursor
from headgate_django.gate.streams import find_queues
from headgate_django.models.store import fetch, literals, marks, rowset


@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    """The queues that one admit may take from, and their weights."""

    names: tuple[str, ...]
    weights: Mapping[str, int] = field(default_factory=dict)
    has_ceilings: bool = False


def load_queues(served: Mapping[str, int], cursor: Cursor, *, using: str) -> Queues:
    """The queues a worker serves (name → weight; ``*`` is every queue), paused ones left out.

    A weight on the ``Queue`` row, when it is not 1, wins over the worker's option.
    """
    names = find_queues(cursor, using=using) if EVERY_QUEUE in served else []
    names += [name for name in served if name not in names and name != EVERY_QUEUE]
    if not names:
        return Queues(names=())
    rows = fetch(
        using,
        f"SELECT name, weight, paused FROM headgate_django_queue WHERE name IN ({marks(len(names))})"
        " UNION ALL SELECT '', count(*), NULL FROM (SELECT 1 FROM headgate_django_concurrencylimit LIMIT 1) found",
        names,
    )
    has_ceilings = any(name == "" and count for name, count, _ in rows)
    weights = effective_weights(names, served, {name: weight for name, weight, _ in rows if name})
    paused = {name for name, _, is_paused in rows if is_paused}
    return Queues(
        names=tuple(name for name in names if name not in paused), weights=weights, has_ceilings=has_ceilings
    )


def load_partitions(groups: Collection[Group], turnstile: Turnstile, *, using: str) -> Partitions:
    """Overrides of these partitions, and what runs in the fleet, which the turnstile counts too. One statement."""
    wanted, params = rowset(using, "wanted", {"queue": "text", "key": "text"}, sorted(groups))
    rows = fetch(
        using,
        f"""
        WITH {wanted}
        SELECT 0, override.queue, override.key, '', override.weight, override.paused
        FROM wanted
        JOIN headgate_django_partition override ON override.queue = wanted.queue AND override.key = wanted.key
        UNION ALL
        SELECT 1, queue, partition_key, rate_class, count(*), NULL
        FROM headgate_django_job
        WHERE state = {literals(State.RUNNING)}
        GROUP BY queue, partition_key, rate_class
        """,
        params,
    )
    overrides = {Group(*row[1:3]): row[4:] for row in rows if row[0] == 0}
    in_flight: Counter[Group] = Counter()
    for _, queue, partition_key, rate_class, count, _ in (row for row in rows if row[0] == 1):
        in_flight[Group(queue, partition_key)] += count
        turnstile.count(Stream(queue, partition_key, rate_class, ""), count)
    return Partitions(
        weights={group: weight for group, (weight, _) in overrides.items()},
        paused=frozenset(group for group, (_, is_paused) in overrides.items() if is_paused),
        in_flight=dict(in_flight),
    )
