"""A capped queue takes no more unfinished jobs than it may, whoever produces at the same time."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from headgate_django.core.states import STORED, TERMINAL, State
from headgate_django.exceptions import QueueFull
from headgate_django.lifecycle.cancel import cancel
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.lifecycle.redrive import redrive
from headgate_django.models import Job, Queue
from tests.support.backlog import Backlog, load
from tests.support.builders import EnvelopeFactory, in_state, queued
from tests.support.locks import Running, held, together, wait_until_blocked
from tests.support.plans import watched

pytestmark = pytest.mark.django_db
committing = pytest.mark.django_db(transaction=True)
POSTGRES = os.environ.get("HEADGATE_TEST_DB") == "postgres"
racing = pytest.mark.skipif(not POSTGRES, reason="SQLite has one writer: there is nothing to race")


def capped(limit: int | None, name: str = "builders") -> Queue:
    return Queue.objects.create(name=name, max_unfinished_jobs=limit)


def produce(count: int = 1, **options: Any) -> list[Job]:
    return enqueue([EnvelopeFactory(queue="builders", **options) for _ in range(count)])


def test_a_full_queue_refuses_and_says_how_full_it_is(now):
    capped(3)
    produce(2)

    with pytest.raises(QueueFull, match="queue 'builders' is full: 2 unfinished") as caught:
        produce(2)

    error = caught.value
    assert (error.queue, error.limit, error.current, error.incoming) == ("builders", 3, 2, 2)
    assert Job.objects.count() == 2


def test_a_queue_fills_up_to_its_limit_exactly(now):
    capped(3)

    produce(2)
    produce(1)

    with pytest.raises(QueueFull):
        produce(1)


def test_a_limit_of_zero_closes_the_intake(now):
    capped(0)

    with pytest.raises(QueueFull, match=r"0 unfinished \+ 1 new > 0"):
        produce()


@pytest.mark.parametrize("row", [False, True])
def test_no_row_and_no_limit_are_no_cap(now, row):
    if row:
        capped(None)

    assert len(produce(50)) == 50


@pytest.mark.parametrize("state", sorted(STORED))
def test_what_has_not_ended_takes_a_place(now, state):
    in_state(state, queue="builders")
    capped(1)

    if state in TERMINAL:
        assert produce()
    else:
        with pytest.raises(QueueFull):
            produce()


def test_a_place_is_free_as_soon_as_a_job_has_ended(now):
    capped(1)
    [job] = produce()
    cancel(Job.objects.filter(pk=job.pk))

    assert produce()


def test_other_queues_do_not_count(now):
    capped(1)
    queued(queue="elsewhere")

    assert produce()


def test_a_batch_over_several_queues_is_stored_whole_or_not_at_all(now):
    capped(5, "wide")
    capped(1, "narrow")
    batch = [EnvelopeFactory(queue=queue) for queue in ("wide", "narrow", "free", "narrow")]

    with transaction.atomic():
        with pytest.raises(QueueFull, match="narrow"):
            enqueue(batch)
        enqueue(batch[:3])

    assert sorted(Job.objects.values_list("queue", flat=True)) == ["free", "narrow", "wide"]


def test_a_replay_needs_no_place(now):
    capped(1)
    [job] = produce(id="mine", arguments={})

    assert produce(id="mine", arguments={})[0].pk == job.pk
    with pytest.raises(QueueFull):
        enqueue([EnvelopeFactory(queue="builders", id=name, arguments={}) for name in ("mine", "other")])


def test_an_operator_may_redrive_into_a_full_queue(now):
    dead = in_state(State.ARCHIVED, queue="builders")
    capped(0)

    assert redrive(Job.objects.filter(pk=dead.pk)) == 1


def test_an_uncapped_queue_locks_and_writes_nothing_shared(now):
    Queue.objects.create(name="builders", weight=3)

    with CaptureQueriesContext(connection) as queries:
        produce(3)

    assert not [query["sql"] for query in queries if "UPDATE" in query["sql"]]


COUNTED = "ORDER BY queue, state"
"""Part of the statement that counts."""


@pytest.mark.parametrize("statistics", ["none", "fresh", "stale"])
def test_counting_reads_along_indexes_and_only_what_is_counted(now, statistics):
    empty_table()
    finished = Backlog(count=10_000, prefix="h", queue="builders", state=State.COMPLETED, payloads=False)
    load(finished)
    if statistics == "stale":
        analyze()
    for state in (State.AVAILABLE, State.PENDING, State.SCHEDULED, State.RETRYABLE):
        load(Backlog(count=5_000, prefix=f"other-{state}", queue="other", state=state, payloads=False))
        load(Backlog(count=10, prefix=f"own-{state}", queue="builders", state=state, payloads=False))
    load(Backlog(count=10, prefix="running", queue="builders", state=State.RUNNING, payloads=False))
    capped(51)
    if statistics == "fresh":
        analyze()

    with watched() as watch:
        produce()
        with pytest.raises(QueueFull, match="51 unfinished"):
            produce()

    counting = watch.one(COUNTED)
    assert counting.indexes == {"headgate_job_ready", "headgate_job_deferred", "headgate_job_leased"}, (
        counting.plan
    )
    assert counting.touched <= (500 if POSTGRES else 1_500)


@pytest.mark.parametrize("seemingly", [0, 30, 100])
@pytest.mark.parametrize("others", [500, 5_000])
def test_counting_stops_at_the_limit_however_few_jobs_the_planner_expects(now, seemingly, others):
    empty_table()
    load(Backlog(count=others, prefix="other", queue="other", state=State.PENDING, payloads=False))
    load(Backlog(count=seemingly, prefix="before", queue="builders", state=State.PENDING, payloads=False))
    analyze()
    load(Backlog(count=10_000, queue="builders", state=State.PENDING, payloads=False))
    capped(400)

    with watched() as watch, pytest.raises(QueueFull) as caught:
        produce()

    assert caught.value.current == 401
    assert watch.one(COUNTED).touched <= (50 if POSTGRES else 401 * 30)


@racing
@pytest.mark.parametrize("limit", [None, 1, 0])
def test_the_callers_planner_is_left_as_it_was(now, limit):
    capped(limit)

    with suppress(QueueFull):
        produce()

    for setting in ("enable_seqscan", "enable_bitmapscan"):
        with connection.cursor() as cursor:
            cursor.execute(f"SHOW {setting}")
            assert cursor.fetchone() == ("on",)


def analyze() -> None:
    run("ANALYZE")


def empty_table() -> None:
    if POSTGRES:  # without the pages and the statistics that the transactions of other tests left behind
        run("TRUNCATE headgate_django_job CASCADE")


def run(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


@racing
@committing
def test_producers_of_a_capped_queue_count_one_after_the_other():
    capped(1)

    with held(produce) as commit:
        second = Running(produce)
        wait_until_blocked(second)
        commit()

    with pytest.raises(QueueFull, match="1 unfinished"):
        second.result()


@racing
@committing
def test_the_place_of_a_rolled_back_producer_goes_to_the_next():
    capped(1)

    with held(produce):
        second = Running(produce)
        wait_until_blocked(second)

    assert len(second.result()) == 1


@racing
@committing
def test_producers_of_an_uncapped_queue_never_wait_for_each_other():
    Queue.objects.create(name="builders")

    with held(produce):
        assert len(Running(produce).result()) == 1  # while the other transaction is open


@committing
def test_many_producers_at_once_fill_the_queue_exactly():
    capped(25)

    def accepted() -> int:
        count = 0
        for _ in range(8):
            try:
                count += len(produce())
            except QueueFull:
                continue
        return count

    assert sum(together(*[accepted] * 8)) == 25
    assert Job.objects.count() == 25
