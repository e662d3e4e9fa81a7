"""An operator lets one job of quarantined content run ahead: checked, recorded, reported."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import CHANGE, LogEntry

from headgate_django.control.redrive import redrive
from headgate_django.control.release import release
from headgate_django.control.report import CANARY_IS_OUT, CONTENT_QUARANTINED, GONE, NO_JOB
from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import Event, State
from headgate_django.exceptions import PermissionRefused
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.cancel import cancel, discard
from headgate_django.models import Job, Quarantine, Suspect
from tests.control.people import user_with
from tests.support.poison import admit_one, in_quarantine, state

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(db):
    return user_with("release_quarantine")


def test_one_job_is_freed_and_both_rows_are_recorded(now, operator):
    canary, *others = in_quarantine(now)

    report = release([canary.fingerprint], actor=operator, canary=True)

    assert (report.done, report.freed, report.more) == (1, 1, False)
    assert [state(job) for job in (canary, *others)] == [State.AVAILABLE, State.QUARANTINED, State.QUARANTINED]
    recorded = {(entry.object_id, entry.action_flag, entry.change_message) for entry in LogEntry.objects.all()}
    assert recorded == {
        (canary.fingerprint, CHANGE, f"Canary sent: job {canary.pk}."),
        (canary.pk, CHANGE, "Released as canary."),
    }


def test_without_the_permission_nothing_is_sent(now):
    canary, *_ = in_quarantine(now)

    with pytest.raises(PermissionRefused):
        release([canary.fingerprint], actor=user_with("redrive_job"), canary=True)

    assert state(canary) == State.QUARANTINED
    assert not Suspect.objects.exists()


def test_a_second_canary_is_refused(now, operator):
    canary, *_ = in_quarantine(now)
    release([canary.fingerprint], actor=operator, canary=True)

    report = release([canary.fingerprint], actor=operator, canary=True)

    assert (report.done, report.freed, report.refused) == (0, 0, {CANARY_IS_OUT: 1})


def test_content_without_jobs_and_unknown_content_are_reported(now, operator):
    [job] = in_quarantine(now, count=1)
    discard(Job.objects.filter(pk=job.pk))

    report = release([job.fingerprint, "0" * 32], actor=operator, canary=True)

    assert (report.done, report.refused, report.skipped) == (0, {NO_JOB: 1}, {GONE: 1})


def test_content_whose_canary_has_succeeded_needs_no_other(now, operator):
    canary, *_ = in_quarantine(now)
    release([canary.fingerprint], actor=operator, canary=True)
    ack([(admit_one("w1"), Outcome(event=Event.SUCCEED))])

    report = release([canary.fingerprint], actor=operator, canary=True)

    assert (report.done, report.skipped) == (0, {GONE: 1})


def test_a_release_of_everything_does_not_wait_for_the_duty(now, operator):
    canary, *others = in_quarantine(now)
    release([canary.fingerprint], actor=operator, canary=True)
    ack([(admit_one("w1"), Outcome(event=Event.SUCCEED))])

    report = release([canary.fingerprint], actor=operator)

    assert (report.done, report.freed) == (1, 2)
    assert {state(job) for job in others} == {State.AVAILABLE}
    assert not Quarantine.objects.exists()


def test_dead_letters_may_be_redriven_as_soon_as_the_canary_has_succeeded(now, operator):
    canary, other, _ = in_quarantine(now)
    release([canary.fingerprint], actor=operator, canary=True)
    Job.objects.filter(pk=other.pk).transition(Event.RELEASE, now_ms=now.at_ms)
    cancel(Job.objects.filter(pk=other.pk))
    people = user_with("redrive_job")
    assert redrive([other.pk], actor=people).refused == {CONTENT_QUARANTINED: 1}

    ack([(admit_one("w1"), Outcome(event=Event.SUCCEED))])

    assert redrive([other.pk], actor=people).done == 1
