"""A capped queue under many producers at once: exactly its limit is accepted, whatever else happens meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import UNFINISHED, Event
from headgate_django.exceptions import QueueFull
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.models import Job, Queue
from headgate_django.models.store import retrying_locked, write_transaction
from tests.support.builders import EnvelopeFactory
from tests.support.locks import Running, held, together, wait_until_blocked

pytestmark = pytest.mark.django_db(transaction=True)
POSTGRES = os.environ.get("HEADGATE_TEST_DB") == "postgres"
racing = pytest.mark.skipif(not POSTGRES, reason="SQLite has one writer: there is nothing to race")

QUEUE = "capped"
LIMIT = 25
PRODUCERS = 64 if POSTGRES else 8
CALLS = 64 // PRODUCERS
"""Of each producer, so that there are 64 on both databases."""


def cap(limit: int | None = LIMIT) -> None:
    with write_transaction("default"):
        Queue.objects.update_or_create(name=QUEUE, defaults={"max_unfinished_jobs": limit})


def produce(count: int = 1, **options: object) -> list[Job]:
    return enqueue([EnvelopeFactory(queue=QUEUE, **options) for _ in range(count)])


def attempt(count: int = 1, **options: object) -> int:
    """How many jobs were accepted: all or none."""
    try:
        return len(produce(count, **options))
    except QueueFull:
        return 0


def unfinished() -> int:
    return Job.objects.filter(queue=QUEUE, state__in=UNFINISHED).count()


def test_many_producers_at_once_are_given_exactly_the_limit():
    cap()

    accepted = together(*[lambda: [attempt() for _ in range(CALLS)]] * PRODUCERS)

    assert sum(map(sum, accepted)) == LIMIT
    assert Job.objects.count() == LIMIT


def test_producers_with_transactions_of_their_own_are_given_exactly_the_limit():
    cap()

    def in_a_transaction() -> int:
        try:
            with transaction.atomic():
                produce()
                Job.objects.filter(queue="elsewhere").exists()
                return 1
        except QueueFull:
            return 0

    accepted = together(*[lambda: [in_a_transaction() for _ in range(CALLS)]] * PRODUCERS)

    assert sum(map(sum, accepted)) == LIMIT
    assert Job.objects.count() == LIMIT


def test_batches_are_stored_whole_or_not_at_all():
    cap()
    sizes = [3, 7, 5, 2, 11, 4, 6, 8]

    def batch(number: int) -> Callable[[], int]:
        return lambda: attempt(sizes[number], partition_key=f"batch{number}")

    accepted = together(*[batch(number) for number in range(len(sizes))])

    stored = [Job.objects.filter(partition_key=f"batch{number}").count() for number in range(len(sizes))]
    assert stored == accepted
    assert set(accepted) <= {0, *sizes}
    left = LIMIT - sum(accepted)
    assert left >= 0
    assert all(size > left for size, count in zip(sizes, accepted, strict=True) if not count)


def test_a_closed_intake_accepts_nothing_from_anybody():
    cap(0)

    assert together(*[attempt] * PRODUCERS) == [0] * PRODUCERS
    assert not Job.objects.exists()


def test_while_workers_drain_the_queue_it_never_holds_more_than_its_limit():
    cap(10)
    done = threading.Event()

    def producer() -> int:
        return sum(attempt(1 + number % 3) for number in range(25))

    def drain() -> int:
        gate, count = Gate("drain", queues={QUEUE: 1}), 0
        while True:
            last = done.is_set()
            claims = gate.admit(4)
            assert ack([(claim, Outcome(event=Event.SUCCEED)) for claim in claims]) == []
            count += len(claims)
            if last and not claims:
                return count

    def watch() -> int:
        most = 0
        while not done.is_set():
            most = max(most, unfinished())
        return most

    draining, watching = Running(drain), Running(watch)
    try:
        accepted = sum(together(*[producer] * 4))
    finally:
        done.set()

    assert watching.result() <= 10
    assert draining.result() == accepted


def test_a_limit_that_is_raised_while_producers_run_is_filled_exactly():
    cap(0)
    raised = threading.Event()

    def producer() -> int:
        accepted = 0
        while True:
            last = raised.is_set()
            count = attempt()
            accepted += count
            if last and not count:
                return accepted

    def raise_limit() -> int:
        try:
            for limit in range(5, LIMIT + 1, 5):
                retrying_locked("default", partial(cap, limit))
        finally:
            raised.set()
        return 0

    assert sum(together(raise_limit, *[producer] * 8)) == LIMIT
    assert Job.objects.count() == LIMIT


@racing
@pytest.mark.parametrize(("limit", "accepted"), [(2, 0), (3, 1), (None, 1), (0, 0)])
def test_a_producer_waits_for_a_limit_that_is_being_changed_and_obeys_it(limit, accepted):
    cap(2)
    produce(2)

    with held(lambda: cap(limit)) as commit:
        waiting = Running(attempt)
        wait_until_blocked(waiting)
        commit()

    assert waiting.result() == accepted


@racing
def test_a_replay_that_had_to_wait_for_its_original_needs_no_place():
    cap(1)

    with held(lambda: produce(id="mine", arguments={})) as commit:
        replay = Running(lambda: produce(id="mine", arguments={})[0].pk)
        wait_until_blocked(replay)
        commit()

    assert replay.result() == "mine"
    assert Job.objects.count() == 1


def test_many_replays_of_one_id_take_one_place():
    cap(1)

    found = together(*[lambda: produce(id="mine", arguments={})[0].pk] * 8)

    assert found == ["mine"] * 8
    assert attempt() == 0


def test_replays_and_new_ids_in_batches_count_only_what_is_new():
    cap(LIMIT)
    rng = Random(1)
    batches = [[f"job{number}" for number in rng.sample(range(40), 5)] for _ in range(32)]

    def store(ids: list[str]) -> Callable[[], bool]:
        def call() -> bool:
            try:
                return bool(enqueue([EnvelopeFactory(queue=QUEUE, id=one, arguments={}) for one in ids]))
            except QueueFull:
                return False

        return call

    accepted = [
        outcome for start in range(0, 32, 8) for outcome in together(*map(store, batches[start : start + 8]))
    ]

    stored = set(Job.objects.values_list("pk", flat=True))
    assert len(stored) <= LIMIT
    assert stored == {one for ids, whole in zip(batches, accepted, strict=True) if whole for one in ids}
    assert all(whole for ids, whole in zip(batches, accepted, strict=True) if set(ids) <= stored)


@racing
def test_a_caller_with_an_old_snapshot_fails_instead_of_exceeding_the_limit():
    cap(1)

    def from_an_old_snapshot() -> None:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            assert unfinished() == 0
            Running(produce).result()
            produce()

    with pytest.raises(OperationalError, match="could not serialize"):
        from_an_old_snapshot()

    assert Job.objects.count() == 1


def test_an_uncapped_queue_pays_no_statement():
    costs = {}
    for name, setup in {
        "no row": lambda: None,
        "no limit": lambda: cap(None),
        "limit": lambda: cap(1_000),
    }.items():
        setup()
        with CaptureQueriesContext(connection) as queries:
            produce(3, pending=True)  # nobody is woken up
        costs[name] = len(queries)

    assert costs["no row"] == costs["no limit"] == costs["limit"] - 3
