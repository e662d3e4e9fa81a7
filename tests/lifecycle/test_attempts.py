"""Which runs leave a row, how many are kept, and what it says."""

from __future__ import annotations

from typing import Any

import pytest

from headgate_django.core.outcomes import Claim, Failure, Outcome
from headgate_django.core.states import Event, State
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.settle import MAX_ATTEMPT_ROWS
from headgate_django.models import Attempt, Job
from tests.support.builders import BOOM, ended, queued, running

pytestmark = pytest.mark.django_db

FAILURES = {Event.RETRY, Event.SKIP, Event.UNDECODABLE, Event.INTERRUPT}
KEPT = FAILURES | {Event.SUCCEED, Event.SNOOZE, Event.RATE_LIMIT}


def run_again(job: Job) -> Claim:
    [claim] = Gate("w1", queues={job.queue: 1}).admit(1)
    return claim


@pytest.mark.parametrize("event", sorted(KEPT))
@pytest.mark.parametrize(("keep", "kept"), [("failures", FAILURES), ("all", KEPT), ("none", set())])
def test_the_setting_chooses_which_runs_leave_a_row(now, settings, event, keep, kept):
    settings.HEADGATE = {"KEEP_ATTEMPTS": keep}

    job = ended(event, None if event is Event.SUCCEED else BOOM)

    assert [attempt.outcome for attempt in job.attempts.all()] == [event.value] * (event in kept)


@pytest.mark.parametrize("keep", ["failures", "all", "none"])
def test_a_deleted_job_leaves_no_row_whatever_the_setting(now, settings, keep):
    settings.HEADGATE = {"KEEP_ATTEMPTS": keep}
    for event, retention_ms in ((Event.SUCCEED, 0), (Event.REVOKE, 60_000)):
        _, claim = running(retention_ms=retention_ms)
        assert ack([(claim, Outcome(event=event))]) == []

    assert not Attempt.objects.exists()


def test_a_row_tells_who_ran_when_and_why_it_ended(now):
    job, claim = running(worker_id="w7")
    started = now.at_ms
    now.advance(seconds=3)

    ack([(claim, Outcome(event=Event.RETRY, failure=BOOM))])

    attempt = job.attempts.get()
    assert (attempt.number, attempt.worker_id, attempt.outcome) == (1, "w7", "retry")
    assert (attempt.started_at_ms, attempt.finished_at_ms, attempt.duration_ms) == (started, now.at_ms, 3_000)
    assert (attempt.error_class, attempt.message, attempt.traceback) == (
        BOOM.error_class,
        BOOM.message,
        BOOM.traceback,
    )


def test_a_run_without_an_error_leaves_empty_texts(now):
    job = ended(Event.INTERRUPT, None)

    attempt = job.attempts.get()
    assert (attempt.error_class, attempt.message, attempt.traceback) == ("", "", "")


def test_rows_are_numbered_by_the_runs_they_belong_to(now):
    job, claim = running()
    for event in (Event.SNOOZE, Event.RETRY, Event.SNOOZE, Event.SNOOZE, Event.INTERRUPT):
        ack([(claim, Outcome(event=event, delay_ms=0, failure=BOOM))])
        claim = run_again(job)

    assert [(attempt.number, attempt.outcome) for attempt in job.attempts.all()] == [
        (2, "retry"),
        (5, "interrupt"),
    ]


def test_the_first_and_the_newest_rows_are_kept(now):
    job, claim = running(max_attempts=1_000)
    for _ in range(MAX_ATTEMPT_ROWS + 20):
        ack([(claim, Outcome(event=Event.RETRY, delay_ms=0, failure=BOOM))])
        claim = run_again(job)

    numbers = [attempt.number for attempt in job.attempts.all()]
    assert numbers == [1, *range(22, MAX_ATTEMPT_ROWS + 21)]
    assert len(numbers) == MAX_ATTEMPT_ROWS


def test_many_runs_without_a_row_never_push_out_the_rows_there_are(now):
    job, claim = running(max_attempts=1_000)
    ack([(claim, Outcome(event=Event.RETRY, delay_ms=0, failure=BOOM))])
    Job.objects.filter(pk=job.pk).update(fence=10**12)
    claim = run_again(job)
    ack([(claim, Outcome(event=Event.RETRY, delay_ms=0, failure=BOOM))])

    assert [attempt.number for attempt in job.attempts.all()] == [1, 10**12 + 1]


def test_the_trim_of_one_job_touches_no_other(now):
    other = ended(Event.SKIP)
    job, _ = running()
    Job.objects.filter(pk=job.pk).transition("cancel", now_ms=now.at_ms)
    Attempt.objects.bulk_create(
        Attempt(job=job, number=number, started_at_ms=1, finished_at_ms=2, outcome="retry")
        for number in range(2, 200)
    )
    Job.objects.filter(pk=job.pk).update(fence=200)
    Job.objects.filter(pk=job.pk).transition("redrive", now_ms=now.at_ms)

    ack([(run_again(job), Outcome(event=Event.RETRY, failure=BOOM))])

    assert (job.attempts.count(), other.attempts.count()) == (MAX_ATTEMPT_ROWS, 1)
    assert {2, 201} <= set(job.attempts.values_list("number", flat=True))


TEXTS: dict[str, Any] = {
    "long": "x" * 100_000,
    "newlines": "\n\n\n",
    "empty": "",
    "four bytes at the cut": "a" * 254 + "😀" * 300,
    "control characters": "\x01\x1b[31m\x7f",
    "markup": "<script>alert(1)</script>",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_no_storable_text_of_an_error_can_refuse_an_ack(now, text):
    job, claim = running()

    failure = Failure(error_class=text, message=text, traceback=text, group="g")
    assert ack([(claim, Outcome(event=Event.SKIP, failure=failure))]) == []

    job.refresh_from_db()
    assert (job.state, job.error_class) == (State.ARCHIVED, text[:255])
    assert len(job.error_summary) <= 512
    assert "\n" not in job.error_summary
    attempt = job.attempts.get()
    assert (attempt.error_class, attempt.message) == (text[:255], text)


def test_a_failed_batch_costs_a_bounded_number_of_statements(now, django_assert_max_num_queries):
    for _ in range(80):
        queued(queue="builders")
    claims = Gate("w1", queues={"builders": 1}).admit(80)

    with django_assert_max_num_queries(8):
        ack([(claim, Outcome(event=Event.RETRY, failure=BOOM)) for claim in claims])

    assert Attempt.objects.count() == 80
