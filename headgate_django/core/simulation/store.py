"""The store of a simulated admit: what the tables are to the gate, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate_django.core.admission import Partitions
from headgate_django.core.allocation import Group, Stream
from headgate_django.core.buckets import Bucket, RateState
from headgate_django.core.drawing import Candidate, Drawn, merge, requests
from headgate_django.core.screening import Refusal
from headgate_django.core.simulation.backlog import Backlog, Waiting
from headgate_django.core.simulation.scenario import Scenario
from headgate_django.core.simulation.workers import Worker
from headgate_django.core.turnstile import Ceiling, Saturated, Seat, Turnstile


@dataclass(slots=True, eq=False)
class Run:
    """A running job."""

    job: Waiting
    stream: Stream
    worker: Worker
    started_at_ms: int
    displaced: bool = False


@dataclass
class Memory:
    """Backlog, running jobs, buckets. ``now_ms`` and ``worker`` are those of the admit that is going on."""

    scenario: Scenario
    backlog: Backlog = field(default_factory=Backlog)
    now_ms: int = 0
    worker: Worker | None = None
    started: list[Run] = field(default_factory=list)
    """By this admit."""
    refused: list[tuple[Refusal, Waiting]] = field(default_factory=list)
    displaced: list[Run] = field(default_factory=list)
    peaks: Counter[Seat] = field(default_factory=Counter)
    _window: list[Run] = field(default_factory=list)
    _gone: list[Run] = field(default_factory=list)
    _running: dict[Seat, dict[Run, None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        weights = {group: load.partition_weight for load in self.scenario.loads for group in load.groups()}
        self.partitions = Partitions(weights=weights, paused=frozenset(), in_flight={})
        self.buckets: dict[str, dict[tuple[int, str], Bucket]] = {name: {} for name in self.scenario.rate_classes}
        self._seats = Turnstile(ceilings=self.scenario.ceilings)
        self._displacing = [
            ceiling for ceiling in self.scenario.ceilings if ceiling.on_saturated is Saturated.CANCEL_RUNNING
        ]

    def turnstile(self) -> Turnstile:
        """The limits now."""
        classes = {
            name: RateState(name, self.now_ms, budgets, buckets=self.buckets[name])
            for name, budgets in self.scenario.rate_classes.items()
        }
        running = Counter(self._seats.running) if self._displacing else self._seats.running
        return Turnstile(classes, self.scenario.ceilings, running)

    def policies(self, streams: Sequence[Stream]) -> tuple[Partitions, Turnstile]:
        return self.partitions, self.turnstile()

    def draw(self, shares: Mapping[Group, int], streams: Sequence[Stream], ahead: int) -> Drawn:
        self.backlog.put_back()
        wanted = requests(shares, streams, ahead)
        return merge(wanted, {stream: self.backlog.draw(stream, count) for stream, count in wanted})

    def remove(self, refused: Sequence[Refusal]) -> None:
        self.refused += [(refusal, self.backlog.take(refusal.candidate)) for refusal in refused]

    def displace(self, ceiling: Ceiling, stream: Stream, count: int) -> Sequence[Stream]:
        mine = (self.worker, self.now_ms)
        seat = ceiling.seat(stream)
        runs = self._running.get(seat, ()) if seat else ()
        others = [run for run in runs if (run.worker, run.started_at_ms) != mine]
        oldest = sorted(others, key=lambda run: (run.started_at_ms, run.job.number))[:count]
        for run in oldest:
            run.displaced = True
            self._leave(run)
        self._gone += oldest  # this window goes on with the work in flight as it was read
        return [run.stream for run in oldest]

    def claim(self, admitted: Sequence[Candidate], turnstile: Turnstile) -> int:
        assert self.worker is not None
        for candidate in admitted:
            job = self.backlog.take(candidate)
            self._window.append(Run(job, candidate.stream, self.worker, self.now_ms))
        return len(admitted)

    def keep(self, turnstile: Turnstile) -> None:
        self.backlog.put_back()
        for run in self._window:
            self._seats.count(run.stream, 1)
            for ceiling in self.scenario.ceilings:
                if seat := ceiling.seat(run.stream):
                    self.peaks[seat] = max(self.peaks[seat], self._seats.running[seat])
            for ceiling in self._displacing:
                if seat := ceiling.seat(run.stream):
                    self._running.setdefault(seat, {})[run] = None
        for run in self._gone:
            self._land(run)
        self.started += self._window
        self.displaced += self._gone
        self._window.clear()
        self._gone.clear()

    def end(self, run: Run) -> None:
        """A run leaves its places."""
        self._land(run)
        self._leave(run)

    def _land(self, run: Run) -> None:
        in_flight, group = self.partitions.in_flight, run.stream.group
        in_flight[group] -= 1
        if not in_flight[group]:
            del in_flight[group]

    def _leave(self, run: Run) -> None:
        self._seats.count(run.stream, -1)
        for ceiling in self._displacing:
            if seat := ceiling.seat(run.stream):
                del self._running[seat][run]
