"""What a running handler sees of its job."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headgate_django import Context
from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import Event
from headgate_django.gate.admit import Gate
from headgate_django.jobs.context import CancelReason
from headgate_django.lifecycle.ack import ack
from tests.support.builders import running

pytestmark = pytest.mark.django_db


def test_a_context_shows_the_envelope_of_its_job(now):
    job, claim = running(
        partition_key="tenant",
        max_attempts=9,
        deadline_ms=now.at_ms + 1_500,
        headers={"trace": "日本"},
    )

    context = Context(claim)

    assert (context.job_id, context.kind, context.queue) == (job.pk, "sample:ok", job.queue)
    assert (context.partition_key, context.max_attempts) == ("tenant", 9)
    assert context.deadline == datetime(2026, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert context.headers == {"trace": "日本"}


def test_a_job_without_headers_and_deadline_has_none(now):
    context = Context(running()[1])

    assert (context.headers, context.deadline) == ({}, None)


def test_only_returned_failures_raise_the_number_of_the_try(now):
    job, claim = running()
    assert (Context(claim).attempt, Context(claim).crash_attempt) == (1, 0)

    tries = []
    for event in (Event.SNOOZE, Event.INTERRUPT, Event.RETRY, Event.RATE_LIMIT):
        ack([(claim, Outcome(event=event, delay_ms=0))])
        [claim] = Gate("w1", queues={job.queue: 1}).admit(1)
        tries.append(Context(claim).attempt)

    assert tries == [1, 1, 2, 2]


def test_a_cancelled_context_says_why_and_stays_cancelled(now):
    context = Context(running()[1])
    assert (context.cancelled, context.wait(0), context.cancel_reason) == (False, False, "")

    context.cancel(CancelReason.TIMEOUT)
    context.cancel(CancelReason.SHUTDOWN)

    assert (context.cancelled, context.wait(60), context.cancel_reason) == (True, True, CancelReason.TIMEOUT)


def test_a_context_never_shows_payload_or_headers(now):
    _, claim = running(arguments={"card": "4111"}, headers={"token": "secret"})

    shown = repr(Context(claim))

    assert "4111" not in shown
    assert "secret" not in shown
