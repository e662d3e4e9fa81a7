"""Who is served over several admits, and by several workers."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from headgate_django.core.allocation import Ledger
from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.core.states import Event
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.models import Queue
from tests.support.backlog import Backlog, load

SUCCESS = Outcome(event=Event.SUCCEED)


def finish(claims: list[Claim]) -> None:
    assert not ack([(claim, SUCCESS) for claim in claims])


def served(gate: Gate, slots: int, admits: int) -> Counter[str]:
    """What a worker with so many slots, whose jobs end before its next admit, is given."""
    given: Counter[str] = Counter()
    for _ in range(admits):
        claims = gate.admit(slots)
        given.update(f"{claim.queue}/{claim.partition_key}" for claim in claims)
        finish(claims)
    return given


@pytest.mark.parametrize("acked", [True, False], ids=["each job ends at once", "no job ends"])
def test_three_jobs_beside_twenty_thousand_are_admitted_within_two_admits(now, acked: bool):
    load(Backlog(count=20_000, partition="loud"), Backlog(count=3, prefix="q", partition="quiet"))
    gate = Gate("w1")

    quiet = 0
    for _ in range(2):
        claims = gate.admit(4)
        quiet += sum(claim.partition_key == "quiet" for claim in claims)
        assert len(claims) == 4
        if acked:
            finish(claims)

    assert quiet == 3


@pytest.mark.parametrize("seed", range(5))
def test_a_single_slot_alternates_between_two_partitions(now, seed: int):
    load(Backlog(count=100, partitions=2, partition="p"))
    gate = Gate("w1", ledger=Ledger(rng=Random(seed)))

    order = []
    for _ in range(8):
        [claim] = gate.admit(1)
        order.append(claim.partition_key)
        finish([claim])

    assert order in (["p0", "p1"] * 4, ["p1", "p0"] * 4)


def test_a_single_slot_goes_round_ten_partitions(now):
    load(Backlog(count=100, partitions=10, partition="p"))

    given = served(Gate("w1"), slots=1, admits=30)

    assert set(given.values()) == {3}


def test_single_slots_keep_the_weights_of_queues(now):
    load(Backlog(count=100, queue="a"), Backlog(count=100, prefix="c", queue="b"))

    given = served(Gate("w1", queues={"a": 3, "b": 1}), slots=1, admits=40)

    assert given == {"a/": 30, "b/": 10}


def test_a_queue_that_was_idle_gets_no_burst(now):
    load(Backlog(count=200, queue="busy"))
    gate = Gate("w1", queues={"busy": 1, "idle": 1})
    served(gate, slots=1, admits=50)

    load(Backlog(count=200, prefix="c", queue="idle"))

    given = served(gate, slots=1, admits=20)
    assert given["idle/"] in (10, 11)


def test_several_workers_keep_the_weights_of_queues_together(now):
    load(Backlog(count=200, queue="a"), Backlog(count=200, prefix="c", queue="b"))
    Queue.objects.create(name="a", weight=3)
    workers = [Gate(f"w{number}", queues={"*": 1}) for number in range(4)]

    given: Counter[str] = Counter()
    for _ in range(4):
        for gate in workers:
            given += served(gate, slots=2, admits=1)

    assert 22 <= given["a/"] <= 26
    assert given.total() == 32


def test_several_workers_hold_no_more_slots_for_a_loud_tenant_than_for_others(now):
    load(Backlog(count=2_000, partition="loud"), Backlog(count=90, prefix="q", partition="quiet", partitions=3))
    workers = [Gate(f"w{number}") for number in range(5)]

    running: Counter[str] = Counter()
    for _ in range(4):
        for gate in workers:
            running.update(claim.partition_key for claim in gate.admit(2))

    assert running == {"loud": 10, "quiet0": 10, "quiet1": 10, "quiet2": 10}


def test_a_tenant_with_slow_jobs_cannot_hold_all_slots(now):
    load(Backlog(count=100, partition="slow"), Backlog(count=100, prefix="q", partition="quick"))
    gate = Gate("w1")

    held: Counter[str] = Counter()
    for _ in range(10):
        claims = gate.admit(8 - held["slow"])
        held["slow"] += sum(claim.partition_key == "slow" for claim in claims)
        finish([claim for claim in claims if claim.partition_key == "quick"])

    assert held["slow"] < 8


def test_a_rolled_back_admit_gives_its_jobs_back(now):
    from django.db import transaction

    load(Backlog(count=3))
    gate = Gate("w1")
    with transaction.atomic():
        first = gate.admit(2)
        transaction.set_rollback(True)

    second = gate.admit(3)

    assert {claim.id for claim in first} < {claim.id for claim in second}
    assert {claim.fence for claim in second} == {1}
