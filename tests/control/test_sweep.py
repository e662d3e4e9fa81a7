"""Verbs over selections: what is done, skipped and refused, in batches, on the record."""

from __future__ import annotations

import logging

import pytest
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.db import IntegrityError, connection
from django.db.models.signals import pre_save
from django.test.utils import CaptureQueriesContext

from headgate_django.control.cancel import cancel, discard
from headgate_django.control.promote import promote
from headgate_django.control.redrive import redrive
from headgate_django.control.report import ATTEMPTS_AT_LIMIT, CONTENT_QUARANTINED, GONE
from headgate_django.control.selection import BATCH
from headgate_django.control.verb import VERBS, verbs_from
from headgate_django.core.envelope import INT32_MAX
from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import STORED, Event, State, sources, target
from headgate_django.exceptions import InvalidJob
from headgate_django.lifecycle.ack import ack
from headgate_django.models import Attempt, Job, Payload, Quarantine
from tests.control.people import user_with
from tests.support.backlog import Backlog, load
from tests.support.builders import in_state, queued, running

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(db):
    return user_with("redrive_job", "cancel_job", "discard_job", "promote_job")


@pytest.mark.parametrize(
    ("verb", "event", "deletes"),
    [
        (redrive, Event.REDRIVE, False),
        (cancel, Event.CANCEL, False),
        (promote, Event.PROMOTE, False),
        (discard, Event.DISCARD, True),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_verb_does_what_the_law_allows_and_names_the_state_of_the_rest(verb, event, deletes, now, operator):
    jobs = {state: in_state(state) for state in STORED}
    allowed = {state for state in sources(event) if (target(state, event) is State.DELETED) == deletes}

    report = verb([job.pk for job in jobs.values()], actor=operator)

    assert report.done == len(allowed)
    assert report.skipped == dict.fromkeys(STORED - allowed, 1)
    assert report.refused == {}
    for state, job in jobs.items():
        stored = Job.objects.filter(pk=job.pk).values_list("state", flat=True).first() or State.DELETED
        assert stored == (target(state, event) if state in allowed else state)


def test_the_table_of_verbs_is_the_law():
    for state in STORED:
        by_law = {
            name
            for name, verb in VERBS.items()
            if target(state, verb.event) is not None
            and (target(state, verb.event) is State.DELETED) == verb.deletes
        }
        assert {verb.name for verb in verbs_from(state)} == by_law


def test_an_operator_cannot_discard_a_job_that_waits(now, operator):
    job = queued()

    report = discard([job.pk], actor=operator)

    assert (report.done, report.skipped) == (0, {State.AVAILABLE: 1})
    assert str(report) == "discard: 0 done; 1 skipped: available"


def test_ids_that_are_gone_and_ids_given_twice_are_counted_once(now, operator):
    job = in_state(State.ARCHIVED)

    report = redrive([job.pk, job.pk, "never was"], actor=operator)

    assert (report.done, report.skipped) == (1, {GONE: 1})


def test_a_redrive_runs_again_with_extra_attempts_and_keeps_history(now, operator):
    job = in_state(State.ARCHIVED)
    attempts, runs = job.max_attempts, Attempt.objects.filter(job=job).count()

    redrive([job.pk], actor=operator, extra_attempts=3)

    job.refresh_from_db()
    assert (job.state, job.max_attempts, job.finalized_at_ms) == (State.AVAILABLE, attempts + 3, None)
    assert Attempt.objects.filter(job=job).count() == runs > 0


@pytest.mark.parametrize("number", [-1, 1_001, True])
def test_a_wrong_number_of_extra_attempts_changes_nothing(number, now, operator):
    job = in_state(State.ARCHIVED)

    with pytest.raises(InvalidJob, match="extra_attempts"):
        redrive([job.pk], actor=operator, extra_attempts=number)

    assert Job.objects.get(pk=job.pk).state == State.ARCHIVED
    assert not LogEntry.objects.exists()


def test_a_redrive_that_would_overflow_the_attempts_is_refused(now, operator):
    job, other = in_state(State.ARCHIVED), in_state(State.ARCHIVED)
    Job.objects.filter(pk=job.pk).update(max_attempts=INT32_MAX)

    report = redrive([job.pk, other.pk], actor=operator, extra_attempts=1)

    assert (report.done, report.refused) == (1, {ATTEMPTS_AT_LIMIT: 1})


@pytest.mark.parametrize(("verb", "state"), [(redrive, State.ARCHIVED), (promote, State.SCHEDULED)])
def test_quarantined_content_is_refused_until_it_is_released(verb, state, now, operator):
    job, other = in_state(state), in_state(state)
    Quarantine.objects.create(fingerprint=job.fingerprint, kind=job.kind, reason="crash", created_at_ms=now.at_ms)

    report = verb([job.pk, other.pk], actor=operator)

    assert (report.done, report.refused) == (1, {CONTENT_QUARANTINED: 1})
    assert Job.objects.get(pk=job.pk).state == state


def test_a_cancelled_run_cannot_report(now, operator):
    job, claim = running()

    cancel([job.pk], actor=operator)

    assert ack([(claim, Outcome(event=Event.SUCCEED))]) == [claim]
    assert Job.objects.get(pk=job.pk).state == State.CANCELLED


def test_a_discard_leaves_nothing_but_the_record(now, operator):
    job = in_state(State.ARCHIVED)

    discard([job.pk], actor=operator)

    assert not Job.objects.filter(pk=job.pk).exists()
    assert not Payload.objects.filter(pk=job.pk).exists()
    assert not Attempt.objects.filter(job_id=job.pk).exists()
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.action_flag, entry.change_message) == (job.pk, DELETION, "Discarded.")


def test_each_job_that_is_done_leaves_an_entry_with_who_and_what(now, operator):
    dead, waiting = in_state(State.ARCHIVED), queued()

    redrive([dead.pk, waiting.pk], actor=operator, extra_attempts=2)

    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_id, entry.action_flag) == (operator, dead.pk, CHANGE)
    assert entry.change_message == "Redriven with 2 extra attempts."
    assert entry.get_edited_object() == dead


def test_what_cannot_be_recorded_is_not_done(now, operator):
    job = in_state(State.ARCHIVED)

    def refuse(sender, **kwargs):
        raise IntegrityError("the log is full")

    pre_save.connect(refuse, sender=LogEntry)
    try:
        with pytest.raises(IntegrityError):
            redrive([job.pk], actor=operator)
    finally:
        pre_save.disconnect(refuse, sender=LogEntry)

    assert Job.objects.get(pk=job.pk).state == State.ARCHIVED


def test_a_large_selection_goes_in_short_transactions(now, operator):
    load(Backlog(count=2 * BATCH + 1, state=State.ARCHIVED, payloads=False))

    with CaptureQueriesContext(connection) as queries:
        report = redrive(Job.objects.all(), actor=operator)

    assert report.done == 2 * BATCH + 1
    assert LogEntry.objects.count() == 2 * BATCH + 1
    updates = [query for query in queries.captured_queries if query["sql"].startswith("UPDATE")]
    assert len(updates) == 3


def test_a_verb_is_told_to_the_process_log(now, caplog):
    job = in_state(State.ARCHIVED)

    with caplog.at_level(logging.INFO, logger="headgate_django.control"):
        redrive([job.pk], actor=None)

    assert caplog.messages == ["redrive: 1 done (by the system)"]
