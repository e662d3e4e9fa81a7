"""Watches a simulation from outside and keeps what the report needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from headgate_django.core.allocation import Group
from headgate_django.core.simulation.backlog import Waiting
from headgate_django.core.simulation.measures import (
    BudgetMeter,
    Fairness,
    LoadMeasure,
    QueueMeasure,
    Sample,
    water_fill,
)
from headgate_django.core.simulation.scenario import Scenario
from headgate_django.core.simulation.store import Memory, Run
from headgate_django.core.turnstile import Seat


class Observer:
    """Measures by load, budget, ceiling and queue."""

    def __init__(self, scenario: Scenario, memory: Memory) -> None:
        self.scenario = scenario
        self._memory = memory
        self.loads = [LoadMeasure() for _ in scenario.loads]
        self.meters = {
            name: [BudgetMeter(budget) for budget in budgets] for name, budgets in scenario.rate_classes.items()
        }
        self.queues: dict[str, QueueMeasure] = {}
        self.fairness = Fairness(sum(load.tenants for load in scenario.loads))
        self.last_event_ms = 0
        self.end_ms = 0
        tenants: dict[tuple[str, str], int] = {}
        self.tenants_of = [
            tenants.setdefault((load.queue, load.partition), len(tenants)) for load in scenario.loads
        ]
        """The number of each load's tenants: loads may share them."""
        self._tenants: dict[Group, int] = {
            group: number
            for load, number in zip(scenario.loads, self.tenants_of, strict=True)
            for group in load.groups()
        }

    @property
    def peaks(self) -> Mapping[Seat, int]:
        """The most jobs that ran in each seat of a ceiling."""
        return self._memory.peaks

    def arrived(self, load: int, *, refused: bool) -> None:
        """A job was enqueued, or refused by a full queue."""
        self.loads[load].arrived += 1
        self.loads[load].refused += refused
        self.last_event_ms = self._memory.now_ms

    def admitted(self, runs: Sequence[Run], queues: Sequence[str], weights: Mapping[str, int]) -> None:
        """What one admit started. ``queues``: those that had work before."""
        now_ms = self._memory.now_ms
        for run in runs:
            load = self.loads[run.job.load]
            load.started += 1
            load.waits.append(now_ms - run.job.at_ms)
            for meter in self.meters.get(run.stream.rate_class, ()):
                meter.take(now_ms, run.stream.partition_key, run.job.weight)
        if len(queues) > 1 and all(queue in self._memory.backlog.bounds for queue in queues):
            self._share(runs, queues, weights)

    def _share(self, runs: Sequence[Run], queues: Sequence[str], weights: Mapping[str, int]) -> None:
        total = sum(weights[queue] for queue in queues)
        started = Counter(run.stream.queue for run in runs)
        for queue in queues:
            measure = self.queues.setdefault(queue, QueueMeasure())
            measure.started += started[queue]
            measure.entitled += len(runs) * weights[queue] / total

    def completed(self, run: Run) -> None:
        """A run has ended by itself."""
        load = self.loads[run.job.load]
        load.completed += 1
        self._ran(run)

    def removed(self, job: Waiting, why: str, run: Run | None = None) -> None:
        """A job was taken out by a policy, while it waited or while it ran."""
        self.loads[job.load].removed[why] += 1
        if run is not None:
            self._ran(run)

    def _ran(self, run: Run) -> None:
        load = self.loads[run.job.load]
        load.busy_ms += self._memory.now_ms - run.started_at_ms
        load.finished_at_ms = self.last_event_ms = self._memory.now_ms

    def finish(self, running: Sequence[Run]) -> None:
        """The simulation is over; ``running``: what it has cut off."""
        self.end_ms = self._memory.now_ms if running or self._memory.backlog.count else self.last_event_ms
        for run in running:
            self.loads[run.job.load].busy_ms += self.end_ms - run.started_at_ms

    def sample(self) -> None:
        """Look at who holds the slots of each queue in which as many jobs could start as there are slots.

        With half of the slots free there is nothing to share.
        """
        busy = sum(self._memory.partitions.in_flight.values())
        self.fairness.add(self._sample_queues() if 2 * busy >= self.scenario.slots else {})

    def _sample_queues(self) -> Sample:
        turnstile = self._memory.turnstile()
        sample: dict[int, tuple[int, float, int]] = {}
        for queue in self._memory.backlog.bounds:
            waiting: Counter[Group] = Counter()
            for stream, count in self._memory.backlog.waiting(queue):
                if not turnstile.admits_none(stream):
                    waiting[stream.group] += count
            if waiting.total() >= self.scenario.slots:
                sample.update(self._sample(queue, waiting))
        return sample

    def _sample(self, queue: str, waiting: Mapping[Group, int]) -> dict[int, tuple[int, float, int]]:
        partitions = self._memory.partitions
        held = {group: count for group, count in partitions.in_flight.items() if group.queue == queue}
        slots = sum(held.values())
        groups = sorted(held.keys() | waiting.keys())
        demands = [(held.get(group, 0) + waiting.get(group, 0), partitions.weights[group]) for group in groups]
        holds: Counter[int] = Counter()
        entitled: dict[int, float] = {}
        for group, share in zip(groups, water_fill(slots, demands), strict=True):
            tenants = self._tenants[group]
            holds[tenants] += held.get(group, 0)
            entitled[tenants] = entitled.get(tenants, 0.0) + share
        return {tenants: (holds[tenants], share, slots) for tenants, share in entitled.items()}
