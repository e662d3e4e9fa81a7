"""Steps 3 to 6 of the gate, round by round: who gets the free slots, and what becomes of each drawn job.

The decision itself, without a database: the gate runs it over tables, the simulation over queues in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headgate_django.core.allocation import Group, Ledger, Stream, allocate
from headgate_django.core.drawing import Candidate, Drawn
from headgate_django.core.screening import Refusal, Verdicts, judge
from headgate_django.core.turnstile import Ceiling, Scope, Seat, Turnstile
from headgate_django.core.walk import Walk

EVERY_QUEUE = "*"
MAX_CAPACITY = 10_000
MAX_WINDOWS = 4
MAX_ROUNDS = 16

FIRST_AHEAD, MAX_AHEAD = 64, 2_000
"""Jobs drawn beyond the shares after a round that gave too few: many in front may have expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """What is known of the partitions of one window: overrides, and jobs that run anywhere in the fleet."""

    weights: Mapping[Group, int]
    paused: frozenset[Group]
    in_flight: dict[Group, int]


class Store(Protocol):
    """Where the jobs and the policies are, as one admission asks for them."""

    def policies(self, streams: Sequence[Stream]) -> tuple[Partitions, Turnstile]:
        """Step 3, what it needs: the policies of these streams, and what runs under them."""

    def keep(self, turnstile: Turnstile) -> None:
        """Remember what was charged."""

    def draw(self, shares: Mapping[Group, int], streams: Sequence[Stream], ahead: int) -> Drawn:
        """Step 4: the first candidates of each group that has a share."""

    def remove(self, refused: Sequence[Refusal]) -> None:
        """Move the refused jobs to where the law sends them."""

    def displace(self, ceiling: Ceiling, stream: Stream, count: int) -> Sequence[Stream]:
        """Cancel the ``count`` oldest running jobs, or fewer, that share the place of ``stream``; their streams.

        Never one that this admit has claimed itself.
        """

    def claim(self, admitted: Sequence[Candidate], turnstile: Turnstile) -> int:
        """Step 6: make them running; how many."""


def free_places(
    places: Sequence[tuple[Ceiling, Stream]], displace: Callable[[Ceiling, Stream, int], Sequence[Stream]]
) -> list[bool]:
    """Which of ``places`` (a full limit, and whose job takes the place) running jobs could be moved aside for.

    The narrowest limit first: a job that leaves its place there leaves the wider ones too, and no other must go.
    """
    takers = {ceiling.seat(stream): (ceiling, stream) for ceiling, stream in places}
    wanted = Counter(ceiling.seat(stream) for ceiling, stream in places)
    left: Counter[Seat | None] = Counter()
    for seat in sorted(takers, key=lambda seat: takers[seat][0].scope is not Scope.PARTITION):
        ceiling, stream = takers[seat]
        if wanted[seat] > left[seat]:
            gone = displace(ceiling, stream, wanted[seat] - left[seat])
            left.update(other for one in gone for other, (wider, _) in takers.items() if wider.seat(one) == other)
    freed = []
    for ceiling, stream in places:
        freed.append(left[ceiling.seat(stream)] > 0)
        left[ceiling.seat(stream)] -= 1
    return freed


def effective_weights(names: Iterable[str], served: Mapping[str, int], own: Mapping[str, int]) -> dict[str, int]:
    """The weights of queues: as a worker was told (``*`` is every queue), unless a queue has one of its own."""
    default = served.get(EVERY_QUEUE, 1)
    return {name: weight if (weight := own.get(name, 1)) != 1 else served.get(name, default) for name in names}


@dataclass(kw_only=True)
class Admission:
    """One worker's admit: fills ``free`` slots until none is left or nothing is left to give them to."""

    store: Store
    ledger: Ledger
    free: int
    queue_weights: Mapping[str, int]
    now_ms: int
    _ahead: int = 0

    def fill(self, walk: Walk) -> None:
        """Look at one window of streams after the other, a bounded number, while slots are free."""
        for _ in range(MAX_WINDOWS):
            streams = walk.window()
            if streams:
                partitions, turnstile = self.store.policies(streams)
                self._take_from(streams, partitions, turnstile)
                self.store.keep(turnstile)
            if self.free < 1 or walk.done:
                break

    def _take_from(self, streams: Sequence[Stream], partitions: Partitions, turnstile: Turnstile) -> None:
        """Give the free slots to these streams, as far as they have work and the limits have room."""
        if partitions.paused:
            streams = [stream for stream in streams if stream.group not in partitions.paused]
        for _ in range(MAX_ROUNDS):
            streams = [stream for stream in streams if not turnstile.admits_none(stream)]
            if self.free < 1 or not streams:
                break
            streams = self._round(streams, partitions, turnstile)

    def _round(self, streams: Sequence[Stream], partitions: Partitions, turnstile: Turnstile) -> list[Stream]:
        """Allocate, draw, screen and claim once; the streams that may have more."""
        turns = allocate(
            dict.fromkeys(stream.group for stream in streams),
            self.free,
            ledger=self.ledger,
            queue_weights=self.queue_weights,
            group_weights=partitions.weights,
            in_flight=partitions.in_flight,
        )
        shares = Counter(turns)
        drawn = self.store.draw(shares, streams, self._ahead)
        verdicts = judge(drawn.candidates, turns, self.now_ms, turnstile)
        if verdicts.refused:
            self.store.remove(verdicts.refused)
        self._claim(self._seated(verdicts, turnstile), partitions.in_flight, turnstile)
        dry = drawn.dry - {candidate.group for candidate in verdicts.surplus}
        given = Counter(candidate.group for candidate in verdicts.admitted)
        if any(given[group] < share for group, share in shares.items() if group not in dry):
            self._ahead = min(MAX_AHEAD, max(FIRST_AHEAD, self._ahead * 4))
        if self.free < 1:
            return []
        return [
            stream
            for stream in streams
            if stream.group not in dry and (stream.group, stream.rate_class) not in verdicts.held
        ]

    def _seated(self, verdicts: Verdicts, turnstile: Turnstile) -> list[Candidate]:
        """The admitted candidates, less those for whom no running job could be moved aside."""
        wanted = [
            (candidate, ceiling)
            for candidate in verdicts.admitted
            for ceiling in verdicts.displacing.get(candidate.id, ())
        ]
        if not wanted:
            return verdicts.admitted
        freed = free_places([(ceiling, candidate.stream) for candidate, ceiling in wanted], self.store.displace)
        standing = {candidate.id for (candidate, _), place in zip(wanted, freed, strict=True) if not place}
        for candidate in verdicts.admitted:
            if candidate.id in standing:
                turnstile.withdraw(candidate.stream, candidate.weight)
        return [candidate for candidate in verdicts.admitted if candidate.id not in standing]

    def _claim(self, admitted: Sequence[Candidate], in_flight: dict[Group, int], turnstile: Turnstile) -> None:
        self.free -= self.store.claim(admitted, turnstile)
        for candidate in admitted:
            group = candidate.group
            in_flight[group] = in_flight.get(group, 0) + 1
            self.ledger.record(group, 1, self.queue_weights.get(group.queue, 1))
