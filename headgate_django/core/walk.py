"""Step 2 of the gate, its way round: a window of streams at a time, where the last admit stopped.

An admit looks at a window of 256 streams, and at further windows only while it has free capacity; the next admit
continues where this one stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headgate_django.core.allocation import Stream

MAX_STREAMS = 256
MIN_STREAMS_PER_QUEUE = 16

AFTER_ALL = "\U0010ffff"
"""Sorts after every storable sticky worker, which is ASCII."""

Bound = tuple[str, str, str]
"""Partition key, rate class and sticky worker: a stream inside its queue."""

START: Bound = ("", "", "")


class Probe(NamedTuple):
    """A question to the store: up to ``limit`` streams of this queue that have work, from ``start`` on."""

    queue: str
    start: Bound
    limit: int


Scan = Callable[[Sequence[Probe]], Mapping[str, Sequence[Bound]]]
"""Answers probes, by queue and in order. Between the streams of no sticky worker and of this one it may skip."""


@dataclass
class _Lap:
    """One queue's way round: from where the last admit stopped to the end, then from the beginning to there."""

    left: list[tuple[Bound, Bound | None]]

    @classmethod
    def starting_at(cls, start: Bound) -> _Lap:
        """The whole way round."""
        return cls([(start, None)] if start == START else [(start, None), (START, start)])

    def advance(self, bounds: Sequence[Bound], limit: int, worker_id: str) -> list[Bound]:
        """Go past ``bounds``, the answer to a probe of ``limit``; those that belong to this lap."""
        (_, stop), *rest = self.left
        inside = sorted(bounds if stop is None else (bound for bound in bounds if bound < stop))
        self.left = rest if len(inside) < limit else [(next_bound(inside[-1], worker_id), stop), *rest]
        return inside


@dataclass
class _Round:
    """What is left to look at until everything was looked at once, over as many admits as that takes."""

    start: str = ""
    """The queue behind which the present pass over the queues began."""
    laps: dict[str, _Lap] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)
    """The queues of this pass. One that is not met in a whole pass has no work any more."""

    @property
    def is_over(self) -> bool:
        """After a whole pass: whether no queue that has work is left in the middle."""
        return not any(lap.left for queue, lap in self.laps.items() if queue in self.met)


@dataclass
class Cursor:
    """Where the next admit's look begins; the memory of one worker."""

    position: dict[str, Bound] = field(default_factory=dict)
    queue: str = ""
    _round: _Round = field(default_factory=_Round)
    _passed: bool = True

    def turn_to(self, queue: str) -> None:
        """The look over the queues goes on behind this one next time; '': all of them were there at once."""
        start, before = self._round.start, self.queue
        inside = before < start <= queue if before < queue else start > before or start <= queue
        self.queue, self._passed = queue, not queue or inside

    def look(self, queues: Sequence[str]) -> dict[str, _Lap]:
        """What is left of the present round in these queues, which an admit now looks at."""
        self._round.met.update(queues)
        for queue in queues:
            self._round.laps.setdefault(queue, _Lap.starting_at(self.position.get(queue, START)))
        return {queue: self._round.laps[queue] for queue in queues}

    def come_round(self) -> bool:
        """After an admit: whether everything was looked at since this was last true. Then a new round begins."""
        if not self._passed:
            return False
        if over := self._round.is_over:
            self.restart()
        else:
            self._round.start, self._round.met = self.queue, set()
        return over

    def restart(self) -> None:
        """Begin a new round: nothing was looked at, or what was done about it is void."""
        self._round = _Round(start=self.queue)


class Walk:
    """One admit's way round the streams that have work this worker may take: unpinned, or pinned to it."""

    def __init__(self, queues: Sequence[str], worker_id: str, cursor: Cursor, scan: Scan) -> None:
        self._worker_id = worker_id
        self._cursor = cursor
        self._scan = scan
        self._budget = max(MIN_STREAMS_PER_QUEUE, MAX_STREAMS // max(len(queues), 1))
        self._laps = {queue: _Lap.starting_at(cursor.position.get(queue, START)) for queue in queues}
        self._round = cursor.look(queues)

    @property
    def done(self) -> bool:
        """Whether every stream was seen."""
        return not any(lap.left for lap in self._laps.values())

    def window(self) -> list[Stream]:
        """The next streams: up to 256, shared evenly between the queues, but at least 16 of each."""
        found: list[Stream] = []
        room = {queue: self._budget for queue, lap in self._laps.items() if lap.left}
        while room:
            probes = [Probe(queue, self._laps[queue].left[0][0], limit) for queue, limit in room.items()]
            answers = self._scan(probes)
            for queue, _, limit in probes:
                bounds = answers.get(queue, ())
                inside = self._laps[queue].advance(bounds, limit, self._worker_id)
                if self._round[queue].left:
                    self._round[queue].advance(bounds, limit, self._worker_id)
                room[queue] -= len(inside)
                found += [Stream(queue, *bound) for bound in inside if bound[2] in ("", self._worker_id)]
            room = {queue: limit for queue, limit in room.items() if limit and self._laps[queue].left}
        self._remember()
        return found

    def _remember(self) -> None:
        for queue, lap in self._laps.items():
            if lap.left:
                self._cursor.position[queue] = lap.left[0][0]
            else:
                self._cursor.position.pop(queue, None)


def next_bound(bound: Bound, worker_id: str) -> Bound:
    """Where to look on: of one (partition, rate class) only the streams '' and ``worker_id`` matter."""
    partition_key, rate_class, sticky = bound
    return (partition_key, rate_class, worker_id if sticky < worker_id else AFTER_ALL)
