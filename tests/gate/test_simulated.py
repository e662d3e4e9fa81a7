"""The simulation decides as the gate does: the same jobs, in the same order, admit after admit."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from headgate_django.core.admission import Admission
from headgate_django.core.allocation import Ledger, Stream
from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.core.simulation.backlog import Waiting
from headgate_django.core.simulation.reading import parse
from headgate_django.core.simulation.scenario import Scenario
from headgate_django.core.simulation.store import Memory, Run
from headgate_django.core.simulation.workers import Worker
from headgate_django.core.states import Event, State
from headgate_django.core.walk import Cursor, Walk
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.models import ConcurrencyLimit, Job, Partition, Queue, RateBudget, RateClass
from tests.support.builders import queued

TENANTS, CLASSES, QUEUES = ["a", "b", "c", "d"], ["", "api", "bulk"], ["p", "q"]


def policies(rng: Random) -> dict[str, Any]:
    """Some limits, as a scenario declares them."""
    strategies = ["queue", "discard", "cancel_incoming", "cancel_running"]

    def limit(scope: dict[str, Any]) -> dict[str, Any]:
        return {**scope, "max_concurrent": rng.randint(2, 5), "on_saturated": rng.choice(strategies)}

    return {
        "queues": {"p": {"weight": rng.choice([1, 3])}},
        "rate_classes": {
            "api": [{"limit": 5, "window": 1, "burst": rng.randint(3, 6)}],
            "bulk": [
                {"limit": 2, "window": 1, "burst": rng.randint(3, 6), "per_partition": True},
                {"limit": 20, "window": 1},
            ],
        },
        "concurrency_limits": {
            "class": limit({"rate_class": "api"}),
            "queue": limit({"queue": "p"}),
            "tenant": limit({"queue": "q", "per_partition": True}),
        },
    }


def scenario(rng: Random) -> Scenario:
    arrivals = {"process": "burst", "jobs": 1}
    tenants = [
        {
            "name": f"{queue}{key}",
            "queue": queue,
            "partition": key,
            "weight": rng.randint(1, 3),
            "arrivals": arrivals,
        }
        for queue in QUEUES
        for key in TENANTS
    ]
    return parse({"title": "t", "workers": [{}], "tenants": tenants, **policies(rng)})


def store(found: Scenario) -> None:
    """The same policies as rows."""
    for name, queue in found.queues.items():
        Queue.objects.create(name=name, weight=queue.weight)
    for load in found.loads:
        Partition.objects.create(queue=load.queue, key=load.partition, weight=load.partition_weight)
    for name, budgets in found.rate_classes.items():
        row = RateClass.objects.create(name=name)
        for one in budgets:
            RateBudget.objects.create(
                rate_class=row,
                limit=one.limit,
                window_ms=one.window_ms,
                burst=one.burst,
                per_partition=one.per_partition,
            )
    for one in found.ceilings:
        ConcurrencyLimit.objects.create(
            name=one.name,
            scope=one.scope,
            key=one.key,
            max_concurrent=one.max_concurrent,
            on_saturated=one.on_saturated,
        )


class Both:
    """One worker at the real gate and its double in the simulation, before the same jobs."""

    def __init__(self, found: Scenario, seed: int) -> None:
        self.gate = Gate("w1", queues={"*": 1}, ledger=Ledger(rng=Random(seed)))
        self.memory = Memory(found)
        self.memory.worker = Worker(id="w1", threads=1, served={"*": 1}, rng=Random(1))
        self.ledger, self.cursor = Ledger(rng=Random(seed)), Cursor()
        self.running: dict[str, tuple[Claim, Run]] = {}
        self.number = 0

    def enqueue(self, stream: Stream, priority: int, weight: int, now_ms: int) -> None:
        self.number += 1
        job = queued(
            id=name(self.number),
            queue=stream.queue,
            partition_key=stream.partition_key,
            rate_class=stream.rate_class,
            priority=priority,
        )
        # Enqueue refuses what no burst can carry; here the job was stored before the budget was made smaller.
        Job.objects.filter(pk=job.pk).update(weight=weight)
        self.memory.backlog.add(stream, priority, Waiting(now_ms, self.number, weight, 1, 0))

    def admit(self, capacity: int, now_ms: int) -> tuple[Answer, Answer]:
        """What each of them admits, refuses and displaces."""
        claims = self.gate.admit(capacity)
        memory, weights = self.memory, {"p": self.memory.scenario.queues["p"].weight, "q": 1}
        memory.now_ms = now_ms
        admission = Admission(
            store=memory, ledger=self.ledger, free=capacity, queue_weights=weights, now_ms=now_ms
        )
        admission.fill(Walk(memory.backlog.queues({"*": 1}), "w1", self.cursor, memory.backlog.scan))
        answers = (
            (
                [claim.id for claim in claims],
                taken_out(now_ms, "Saturated", "TooHeavy"),
                taken_out(now_ms, "Displaced"),
            ),
            (
                [name(run.job.number) for run in memory.started],
                {name(job.number) for _, job in memory.refused},
                {name(run.job.number) for run in memory.displaced},
            ),
        )
        for run in memory.displaced:
            del self.running[name(run.job.number)]
        self.running |= {claim.id: (claim, run) for claim, run in zip(claims, memory.started, strict=False)}
        for told in (memory.started, memory.refused, memory.displaced):
            told.clear()
        return answers

    def end(self, ids: list[str]) -> None:
        assert not ack([(self.running[one][0], Outcome(event=Event.SUCCEED)) for one in ids])
        for one in ids:
            self.memory.end(self.running.pop(one)[1])


Answer = tuple[list[str], set[str], set[str]]


def name(number: int) -> str:
    return f"{number:09}"


def taken_out(at_ms: int, *errors: str) -> set[str]:
    rows = Job.objects.filter(
        state__in=[State.ARCHIVED, State.CANCELLED], finalized_at_ms=at_ms, error_class__in=errors
    )
    return set(rows.values_list("id", flat=True))


@pytest.mark.parametrize("seed", range(12))
def test_gate_and_simulation_admit_refuse_and_displace_the_same_jobs(now, seed: int):
    rng = Random(seed)
    found = scenario(rng)
    store(found)
    both = Both(found, seed)

    for _ in range(12):
        for _ in range(rng.randint(0, 25)):
            stream = Stream(rng.choice(QUEUES), rng.choice(TENANTS), rng.choice(CLASSES), "")
            both.enqueue(stream, rng.choice([0, 0, 5]), rng.choice([1, 1, 1, 3, 7]), now.at_ms)
        real, simulated = both.admit(rng.randint(1, 12), now.at_ms)

        assert simulated == real

        both.end([one for one in both.running if rng.random() < 0.4])
        now.advance(milliseconds=rng.choice([1, 50, 400, 1_000]))
