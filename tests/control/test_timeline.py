"""A job's story."""

from __future__ import annotations

import pytest

from headgate_django.control.redrive import redrive
from headgate_django.control.timeline import MAX_TRACEBACK, attempts, timeline
from headgate_django.core.outcomes import Failure, Outcome
from headgate_django.core.states import Event, State
from headgate_django.lifecycle.ack import ack
from headgate_django.models import Job
from tests.control.people import user_with
from tests.support.builders import ended, in_state, queued

pytestmark = pytest.mark.django_db


def story(job):
    job.refresh_from_db()
    return [(str(moment.what), str(moment.detail), moment.who) for moment in timeline(job, attempts(job))]


def test_a_waiting_job_was_enqueued_and_is_due(now):
    job = queued(delay_ms=60_000)

    assert story(job) == [("Enqueued", "", ""), ("Due", "", "")]


def test_a_run_that_succeeded_is_in_the_story_without_a_row_of_its_own(now):
    job = in_state(State.COMPLETED)

    assert story(job) == [("Enqueued", "", ""), ("Started", "run 1 on w1", ""), ("Completed", "", "")]


def test_a_death_and_a_redrive_are_told_in_order_with_who(now, admit):
    operator = user_with("redrive_job")
    job = queued()
    [claim] = admit(1)
    now.advance(seconds=2)
    ack([(claim, Outcome(event=Event.SKIP, failure=Failure(error_class="ValueError", message="no")))])
    redrive([job.pk], actor=operator)

    told = story(job)

    assert told[:3] == [
        ("Enqueued", "", ""),
        ("Started", "run 1 on w1", ""),
        ("Run ended", "skip ValueError", ""),
    ]
    assert ("Redriven.", "", operator.get_username()) in told


def test_long_tracebacks_are_cut_by_the_database(now):
    failure = Failure(error_class="E", message="m", traceback="x" * 100_000)
    job = ended(Event.SKIP, failure)

    [run] = attempts(Job.objects.get(pk=job.pk))

    assert (len(run.shown_traceback), run.traceback_length) == (MAX_TRACEBACK, 100_000)
    assert {"traceback", "message"} <= run.get_deferred_fields()
