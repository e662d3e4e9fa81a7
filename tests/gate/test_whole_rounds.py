"""Admits look at a bounded number of streams each; the gate says when they have come round over all of them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from django.db import OperationalError, connection

from headgate_django.core import admission, walk
from headgate_django.gate import streams
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.cancel import cancel
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.models import Job, Queue, RateClass
from tests.support.builders import EnvelopeFactory, queued

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def short_looks(monkeypatch) -> None:
    """An admit looks at 4 queues, and at 2 windows of 4 streams, at least 2 of each queue."""
    monkeypatch.setattr(streams, "MAX_QUEUES", 4)
    monkeypatch.setattr(walk, "MAX_STREAMS", 4)
    monkeypatch.setattr(walk, "MIN_STREAMS_PER_QUEUE", 2)
    monkeypatch.setattr(admission, "MAX_WINDOWS", 2)


def blocked(*places: tuple[str, str]) -> None:
    RateClass.objects.get_or_create(name="closed", paused=True)
    enqueue([EnvelopeFactory(queue=queue, partition_key=key, rate_class="closed") for queue, key in places])


def looks(gate: Gate) -> Iterator[list[str]]:
    """What each admit claims, until the gate has come round twice."""
    rounds = 0
    for _ in range(500):
        yield [claim.id for claim in gate.admit(10)]
        rounds += gate.came_round
        if rounds == 2:
            return
    raise AssertionError("it never comes round")


def gate_of(*queues: str) -> Gate:
    return Gate("w1", queues=dict.fromkeys(queues, 1))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("every", [True, False], ids=["every queue", "named queues"])
def test_what_may_run_is_found_before_the_gate_has_come_round_twice(now, seed: int, every: bool):
    rng = Random(seed)
    queues = [f"q{number}" for number in range(rng.choice([1, 3, 9, 14]))]
    places = {(rng.choice(queues), f"p{rng.randint(0, 40):02}") for _ in range(60)}
    blocked(*places)
    gate = gate_of(*(["*"] if every else queues))
    for _ in range(rng.randint(0, 9)):
        assert gate.admit(10) == []

    free = queued(queue=rng.choice(queues), partition_key=rng.choice(["", "p20", "z"]))

    assert [job_id for claimed in looks(gate) for job_id in claimed] == [free.id]


@pytest.mark.parametrize("queues", [["*"], ["a", "b"]])
def test_few_streams_are_a_round_in_every_admit(now, queues: list[str]):
    blocked(("a", "1"), ("b", "1"), ("b", "2"))
    gate = gate_of(*queues)

    assert list(looks(gate)) == [[], []]


def test_an_empty_queue_is_a_round_in_every_admit(now):
    assert list(looks(gate_of("*"))) == [[], []]


def test_many_streams_are_several_admits_a_round(now):
    blocked(*(("a", f"p{number:02}") for number in range(20)))
    gate = gate_of("a")
    came_round = []
    for _ in range(6):
        gate.admit(10)
        came_round.append(gate.came_round)

    assert came_round == [False, False, True, False, False, True]


@pytest.mark.parametrize("queues", [["*"], [f"q{number}" for number in range(12)]])
@pytest.mark.parametrize("end", ["cancelled", "paused"])
def test_queues_in_the_middle_of_which_it_was_do_not_hold_up_the_round(now, queues: list[str], end: str):
    blocked(*((f"q{number}", f"p{key}") for number in range(12) for key in range(9)))
    gate = gate_of(*queues)
    for _ in range(4):
        gate.admit(10)

    if end == "cancelled":
        cancel(Job.objects.exclude(queue="q7"))
    else:
        Queue.objects.bulk_create([Queue(name=f"q{number}", paused=True) for number in range(12)])

    assert not any(looks(gate))


def test_what_a_failed_admit_has_looked_at_is_looked_at_again_in_the_same_round(now):
    blocked(*(("a", f"p{number:02}") for number in range(20)))
    gate = gate_of("a")
    while not gate.came_round:
        gate.admit(10)
    free = queued(queue="a", partition_key="p10~")  # the last of the next eight
    with connection.execute_wrapper(broken_claims), pytest.raises(OperationalError):
        gate.admit(10)

    claimed = gate.admit(10)
    while not gate.came_round:
        claimed += gate.admit(10)

    assert [claim.id for claim in claimed] == [free.id]


def broken_claims(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    if "SET state = 'running'" in sql:
        raise OperationalError("the connection is lost")
    return execute(sql, params, many, context)
