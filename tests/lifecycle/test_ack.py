"""Ack is the only way a run ends, and only the holder of the lease may ack."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from headgate_django.core.backoff import failure_delay
from headgate_django.core.outcomes import RUN_EVENTS, Claim, Failure, Outcome
from headgate_django.core.states import TERMINAL, Event, State
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.cancel import cancel, discard
from headgate_django.lifecycle.redrive import redrive
from headgate_django.models import Attempt, Job, Payload
from tests.support.builders import BOOM, queued, running

pytestmark = pytest.mark.django_db

INT32_MAX = 2**31 - 1
SUCCESS = Outcome(event=Event.SUCCEED)
SKIP = Outcome(event=Event.SKIP, failure=BOOM)


def row(job: Job) -> dict[str, Any]:
    return Job.objects.filter(pk=job.pk).values().get()


def claims(count: int, **options: Any) -> list[Claim]:
    for _ in range(count):
        queued(queue="builders", **options)
    return Gate("w1", queues={"builders": 1}).admit(count)


@pytest.mark.parametrize(
    ("event", "counters"),
    [
        (Event.SUCCEED, (0, 0, 0)),
        (Event.RETRY, (1, 0, 0)),
        (Event.SKIP, (0, 0, 0)),
        (Event.SNOOZE, (0, 0, 0)),
        (Event.RATE_LIMIT, (0, 0, 0)),
        (Event.UNDECODABLE, (0, 0, 0)),
        (Event.INTERRUPT, (0, 0, 1)),
    ],
)
def test_a_run_ends_with_its_own_counter_its_lease_cleared_and_its_fence_kept(now, event, counters):
    job, claim = running()
    now.advance(seconds=2)

    assert ack([(claim, Outcome(event=event))]) == []

    after = row(job)
    assert (after["attempt"], after["crash_attempt"], after["interruptions"]) == counters
    assert (after["lease_id"], after["lease_expires_at_ms"], after["fence"]) == ("", None, 1)
    assert after["finalized_at_ms"] == (now.at_ms if after["state"] in TERMINAL else None)
    assert after["worker_id"] == "w1"


def test_delays_count_from_the_clock_of_the_store_at_the_ack(now):
    ended = dict(zip((Event.SNOOZE, Event.RATE_LIMIT, Event.RETRY), claims(3), strict=True))
    now.advance(seconds=100)

    ack([(claim, Outcome(event=event, delay_ms=5_000)) for event, claim in ended.items()])

    assert set(Job.objects.values_list("scheduled_at_ms", flat=True)) == {now.at_ms + 5_000}


def test_a_failure_without_a_delay_backs_off(now):
    job, claim = running()

    ack([(claim, Outcome(event=Event.RETRY, failure=BOOM))])

    wait = row(job)["scheduled_at_ms"] - now.at_ms
    assert failure_delay(1, 0.0) <= wait <= failure_delay(1, 0.999)


def test_jobs_that_fail_together_come_back_apart(now):
    ack([(claim, Outcome(event=Event.RETRY, failure=BOOM)) for claim in claims(100)])

    assert len(set(Job.objects.values_list("scheduled_at_ms", flat=True))) > 50


def test_an_interrupted_job_keeps_its_place(now):
    job, claim = running()
    due = row(job)["scheduled_at_ms"]
    now.advance(seconds=50)

    ack([(claim, Outcome(event=Event.INTERRUPT))])

    assert (row(job)["state"], row(job)["scheduled_at_ms"]) == (State.AVAILABLE, due)


def test_success_without_retention_leaves_nothing(now):
    _, claim = running(retention_ms=0)

    assert ack([(claim, SUCCESS)]) == []

    assert [model.objects.count() for model in (Job, Payload, Attempt)] == [0, 0, 0]


def test_a_revoked_job_leaves_nothing_not_even_earlier_attempts(now):
    job, claim = running()
    ack([(claim, Outcome(event=Event.RETRY, delay_ms=0, failure=BOOM))])
    [claim] = Gate("w1", queues={job.queue: 1}).admit(1)

    assert ack([(claim, Outcome(event=Event.REVOKE))]) == []

    assert [model.objects.count() for model in (Job, Payload, Attempt)] == [0, 0, 0]


def test_the_last_allowed_failure_archives(now):
    job, _ = running(max_attempts=3)
    Job.objects.filter(pk=job.pk).transition(Event.CANCEL, now_ms=now.at_ms)
    redrive(Job.objects.filter(pk=job.pk))
    states = []
    for _ in range(3):
        [claim] = Gate("w1", queues={job.queue: 1}).admit(1)
        ack([(claim, Outcome(event=Event.RETRY, delay_ms=0, failure=BOOM))])
        states.append((row(job)["state"], row(job)["attempt"]))

    assert states == [(State.RETRYABLE, 1), (State.RETRYABLE, 2), (State.ARCHIVED, 3)]


@pytest.mark.parametrize("column", ["attempt", "crash_attempt", "interruptions"])
def test_a_counter_at_the_end_of_its_column_refuses_no_ack(now, column):
    job, _ = running(max_attempts=INT32_MAX)
    Job.objects.filter(pk=job.pk).update(**{column: INT32_MAX})
    cancel(Job.objects.filter(pk=job.pk))
    redrive(Job.objects.filter(pk=job.pk))
    [claim] = Gate("w1", queues={job.queue: 1}).admit(1)
    event = Event.INTERRUPT if column == "interruptions" else Event.RETRY

    assert ack([(claim, Outcome(event=event, failure=BOOM))]) == []

    assert row(job)[column] == INT32_MAX


def test_an_empty_batch_is_no_statement(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert ack([]) == []


def test_a_large_batch_of_every_outcome_is_settled_whole(now):
    batch = claims(300, retention_ms=60_000)
    events = sorted(RUN_EVENTS)

    refused = ack(
        [
            (claim, Outcome(event=events[index % len(events)], delay_ms=1_000, failure=BOOM))
            for index, claim in enumerate(batch)
        ]
    )

    assert refused == []
    assert not Job.objects.in_state(State.RUNNING).exists()
    assert discard(Job.objects.all()) > 0


@pytest.mark.django_db(transaction=True)
def test_a_batch_of_successes_is_one_statement_and_a_mixed_one_is_one_transaction(now):
    def sent(outcomes: list[Outcome]) -> list[str]:
        batch = claims(len(outcomes))
        with CaptureQueriesContext(connection) as queries:
            ack(list(zip(batch, outcomes, strict=True)))
        return [query["sql"].split()[0] for query in queries]

    assert sent([SUCCESS] * 50) == ["WITH"]
    mixed = sent([SUCCESS, SKIP])
    assert (mixed[0], mixed[-1]) == ("BEGIN", "COMMIT")


@pytest.mark.django_db(transaction=True)
def test_inside_the_handlers_transaction_an_ack_commits_or_rolls_back_with_it(now):
    job, claim = running()
    with transaction.atomic():
        assert ack([(claim, SUCCESS)]) == []
        transaction.set_rollback(True)
    assert row(job)["state"] == State.RUNNING

    with transaction.atomic():
        ack([(claim, SUCCESS)])
    assert row(job)["state"] == State.COMPLETED


def test_success_wipes_the_last_error_and_a_failure_shows_it(now):
    failure = Failure(error_class="E" * 300, message="\n\n  first line " + "x" * 600 + "\nsecond", group="g")
    job, claim = running()
    ack([(claim, Outcome(event=Event.RETRY, delay_ms=0, failure=failure))])
    shown = row(job)
    assert shown["error_class"] == "E" * 255
    assert shown["error_summary"].startswith("first line xxx")
    assert (len(shown["error_summary"]), shown["error_group"]) == (512, "g")

    [claim] = Gate("w1", queues={job.queue: 1}).admit(1)
    ack([(claim, Outcome(event=Event.SNOOZE, delay_ms=0))])
    assert row(job)["error_class"] == "E" * 255  # a snooze says nothing about the error

    [claim] = Gate("w1", queues={job.queue: 1}).admit(1)
    ack([(claim, SUCCESS)])
    assert [row(job)[name] for name in ("error_class", "error_summary", "error_group")] == ["", "", ""]
