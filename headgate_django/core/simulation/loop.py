"""Virtual time: arrivals, ends and looks, one after the other."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from random import Random
from typing import Any

from headgate_django.core.admission import EVERY_QUEUE, MAX_CAPACITY, Admission, effective_weights
from headgate_django.core.allocation import Stream
from headgate_django.core.simulation.backlog import Waiting
from headgate_django.core.simulation.observer import Observer
from headgate_django.core.simulation.scenario import Scenario
from headgate_django.core.simulation.store import Memory, Run
from headgate_django.core.simulation.workers import LONGEST_PAUSE_MS, NOTIFY_MS, Worker
from headgate_django.core.walk import Walk

PATIENCE_MS = 10 * LONGEST_PAUSE_MS


class Happens(IntEnum):
    """What happens first at the same millisecond. Arrivals come before all of them."""

    END = 0
    NOTIFY = 1
    LOOK = 2
    SAMPLE = 3


Arrival = tuple[int, int, int]
"""Instant, number of the load, number of the tenant."""


@dataclass
class Simulation:
    """One run of a scenario. The same seed gives the same run."""

    scenario: Scenario
    memory: Memory = field(init=False)
    observer: Observer = field(init=False)
    _events: list[tuple[int, int, int, Any]] = field(default_factory=list)
    _serial: int = 0
    _jobs: int = 0
    _running: int = 0
    _last_start_ms: int = 0
    _unfinished: Counter[str] = field(default_factory=Counter)
    _notified_ms: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        scenario = self.scenario
        self.memory = Memory(scenario)
        self.observer = Observer(scenario, self.memory)
        self._workers = list(_workers(scenario))
        self._weights = {name: policy.weight for name, policy in scenario.queues.items()}
        self._caps = {name: policy.max_unfinished_jobs for name, policy in scenario.queues.items()}
        self._streams = [
            [Stream(*group, load.rate_class, "") for group in load.groups()] for load in scenario.loads
        ]
        self._chance = [_random(scenario, "jobs", load.name) for load in scenario.loads]
        self._arrivals = heapq.merge(*(_arrivals(scenario, number) for number in range(len(scenario.loads))))
        self._next = next(self._arrivals, None)
        self._patience_ms = PATIENCE_MS + max(
            (
                -(-one.burst * one.window_ms // one.limit)
                for found in scenario.rate_classes.values()
                for one in found
            ),
            default=0,
        )

    def run(self) -> Observer:
        """Until no job can run any more, or the scenario says stop."""
        self._push(self.observer.fairness.every_ms, Happens.SAMPLE, None)
        while (at := self._next_instant()) is not None and not self._is_over(at):
            self.memory.now_ms = at
            while self._next is not None and self._next[0] <= at:
                self._arrive(*self._next)
                self._next = next(self._arrivals, None)
            while self._events and self._events[0][0] <= at:
                _, kind, _, subject = heapq.heappop(self._events)
                self._happen(Happens(kind), subject)
        running = [run for _, kind, _, run in self._events if kind is Happens.END and not run.displaced]
        self.observer.finish(running)
        return self.observer

    def _next_instant(self) -> int | None:
        if self._next is None:
            return self._events[0][0] if self._events else None
        return min(self._next[0], self._events[0][0]) if self._events else self._next[0]

    def _is_over(self, at_ms: int) -> bool:
        if 0 < self.scenario.stop_ms <= at_ms:
            return True
        if self._next is not None or self._running:
            return False
        # With all buckets full and all places free, what does not start never will.
        idle_since = max(self._last_start_ms, self.observer.last_event_ms)
        return not self.memory.backlog.count or at_ms > idle_since + self._patience_ms

    def _push(self, at_ms: int, kind: Happens, subject: object) -> None:
        self._serial += 1
        heapq.heappush(self._events, (at_ms, kind, self._serial, subject))

    def _happen(self, kind: Happens, subject: Any) -> None:
        now_ms = self.memory.now_ms
        match kind:
            case Happens.END:
                self._end(subject)
            case Happens.NOTIFY:
                self._notify(subject)
            case Happens.LOOK:
                if subject.looks_at_ms == now_ms:
                    self._look(subject)
            case Happens.SAMPLE:
                self.observer.sample()
                self._push(now_ms + self.observer.fairness.every_ms, Happens.SAMPLE, None)

    def _arrive(self, at_ms: int, number: int, tenant: int) -> None:
        load, rng = self.scenario.loads[number], self._chance[number]
        self._jobs += 1
        job = Waiting(
            at_ms,
            self._jobs,
            max(1, round(load.weight.sample(rng))),
            max(1, round(1000 * load.duration.sample(rng))),
            number,
        )
        cap = self._caps.get(load.queue)
        refused = cap is not None and self._unfinished[load.queue] >= cap
        self.observer.arrived(number, refused=refused)
        if refused:
            return
        self._unfinished[load.queue] += 1
        self.memory.backlog.add(self._streams[number][tenant], load.priority, job)
        if at_ms - self._notified_ms.get(load.queue, -NOTIFY_MS) >= NOTIFY_MS:
            self._notified_ms[load.queue] = at_ms
            self._push(at_ms, Happens.NOTIFY, load.queue)

    def _notify(self, queue: str) -> None:
        for worker in self._workers:
            if queue in worker.served or EVERY_QUEUE in worker.served:
                self._look_later(worker, worker.notified(self.memory.now_ms))

    def _look_later(self, worker: Worker, at_ms: int | None) -> None:
        if at_ms is not None:
            self._push(at_ms, Happens.LOOK, worker)

    def _look(self, worker: Worker) -> None:
        memory = self.memory
        memory.worker = worker
        names = memory.backlog.queues(worker.served)
        weights = effective_weights(names, worker.served, self._weights)
        before = [name for name in names if name in memory.backlog.bounds]
        walk = Walk(names, worker.id, worker.cursor, memory.backlog.scan)
        admission = Admission(
            store=memory,
            ledger=worker.ledger,
            free=min(worker.free, MAX_CAPACITY),
            queue_weights=weights,
            now_ms=memory.now_ms,
        )
        admission.fill(walk)
        self._settle()
        self.observer.admitted(memory.started, before, weights)
        self._look_later(worker, worker.asked(len(memory.started), walk.done, memory.now_ms))
        memory.started.clear()

    def _settle(self) -> None:
        memory = self.memory
        for run in memory.started:
            self._push(memory.now_ms + run.job.duration_ms, Happens.END, run)
        if memory.started:
            self._running += len(memory.started)
            self._last_start_ms = memory.now_ms
        for refusal, job in memory.refused:
            self._unfinished[refusal.candidate.group.queue] -= 1
            self.observer.removed(job, refusal.error[2])
        for run in memory.displaced:
            self._leave(run)
            self.observer.removed(run.job, "displaced", run)
        memory.refused.clear()
        memory.displaced.clear()

    def _end(self, run: Run) -> None:
        if run.displaced:
            return
        self.memory.end(run)
        self._leave(run)
        self.observer.completed(run)

    def _leave(self, run: Run) -> None:
        self._running -= 1
        self._unfinished[run.stream.queue] -= 1
        self._look_later(run.worker, run.worker.ended(self.memory.now_ms))


def _random(scenario: Scenario, *names: object) -> Random:
    # Each has its own, so that a policy that is changed does not change the jobs.
    return Random("/".join(map(str, (scenario.seed, *names))))


def _workers(scenario: Scenario) -> Iterator[Worker]:
    number = 0
    for group in scenario.workers:
        for _ in range(group.count):
            number += 1
            yield Worker(
                id=f"w{number}",
                threads=group.threads,
                served=group.queues,
                rng=_random(scenario, "worker", number),
            )


def _arrivals(scenario: Scenario, number: int) -> Iterator[Arrival]:
    load = scenario.loads[number]
    for at_ms, tenant in load.arrivals.arrivals(load.tenants, _random(scenario, "arrivals", load.name)):
        yield at_ms, number, tenant
