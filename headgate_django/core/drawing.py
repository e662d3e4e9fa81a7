"""Step 4 of the gate, its arithmetic: how much to draw from each stream, and the order of what was drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from headgate_django.core.allocation import Group, Stream

MIN_DRAWN = 8
"""Jobs drawn from each of many streams of one partition, when its share is at least that."""


class Candidate(NamedTuple):
    """An available job that was drawn. Sorts by priority (higher first), scheduled time, id."""

    rank: tuple[int, int, str]
    group: Group
    rate_class: str
    weight: int
    deadline_ms: int
    quarantined: str
    """Its fingerprint, if that is quarantined."""

    @property
    def id(self) -> str:
        """The job's id."""
        return self.rank[2]

    @property
    def stream(self) -> Stream:
        """The stream, as far as limits look at it."""
        return Stream(*self.group, self.rate_class, "")


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the streams gave: candidates in the order of their group, and the groups with nothing beyond them."""

    candidates: list[Candidate]
    dry: frozenset[Group]


Request = tuple[Stream, int]


def requests(shares: Mapping[Group, int], streams: Sequence[Stream], ahead: int) -> list[Request]:
    """How many jobs to draw from each stream of the groups that have a share; ``ahead`` more in all.

    Drawn rows are locked, so a partition of many rate classes must not draw its whole share from each. Of a group
    with many streams a round may draw fewer than its share, never more out of order: what is left is for the next.
    """
    chosen = [stream for stream in streams if stream[:2] in shares]
    widths = Counter(stream.group for stream in chosen)
    extra = -(-ahead // max(1, len(chosen)))
    wanted = []
    for stream in chosen:
        share = shares[stream.group]
        even = -(-2 * share // widths[stream.group])
        wanted.append((stream, min(share, max(MIN_DRAWN, even)) + extra))
    return wanted


def merge(wanted: Sequence[Request], drawn: Mapping[Stream, Sequence[Candidate]]) -> Drawn:
    """Put what the streams gave, each in its order, into the order of their groups."""
    groups: dict[Group, list[Candidate]] = {}
    horizons: dict[Group, tuple[int, int, str]] = {}
    for stream, count in wanted:
        found = drawn.get(stream, ())
        group = stream.group
        groups.setdefault(group, []).extend(found)
        if len(found) >= count:
            # Behind its last candidate this stream may hold one that goes before the other streams' next.
            last = max(candidate.rank for candidate in found)
            horizons[group] = min(last, horizons.get(group, last))
    candidates = [
        candidate
        for group, found in groups.items()
        for candidate in sorted(found, key=attrgetter("rank"))
        if group not in horizons or candidate.rank <= horizons[group]
    ]
    return Drawn(candidates, frozenset(groups.keys() - horizons.keys()))
