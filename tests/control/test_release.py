"""Release: content is allowed again, and its quarantined jobs become available."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import DELETION, LogEntry

from headgate_django.control.release import release, release_content_of
from headgate_django.control.report import GONE
from headgate_django.core.states import State
from headgate_django.models import Job, Quarantine
from tests.control.people import user_with
from tests.support.backlog import Backlog, load
from tests.support.builders import quarantined, queued

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(db):
    return user_with("release_quarantine")


def test_a_release_frees_the_jobs_of_this_content_and_no_other(now, operator):
    job, other = quarantined(arguments={"value": "a"}), quarantined(arguments={"value": "b"})

    report = release([job.fingerprint], actor=operator)

    assert (report.done, report.freed) == (1, 1)
    assert Job.objects.get(pk=job.pk).state == State.AVAILABLE
    assert Job.objects.get(pk=other.pk).state == State.QUARANTINED
    assert list(Quarantine.objects.values_list("pk", flat=True)) == [other.fingerprint]


def test_released_content_runs_and_may_be_enqueued_again(now, operator, admit):
    job = quarantined(arguments={"value": "a"})
    Job.objects.filter(pk=job.pk).update(crash_attempt=3)

    release([job.fingerprint], actor=operator)

    queued(arguments={"value": "a"})
    assert job.pk in {claim.id for claim in admit(10)}
    assert Job.objects.get(pk=job.pk).crash_attempt == 0


def test_a_release_is_recorded_for_the_content_and_for_each_job(now, operator):
    job = quarantined()

    release([job.fingerprint], actor=operator)

    recorded = {(entry.object_id, entry.change_message) for entry in LogEntry.objects.all()}
    assert recorded == {(job.fingerprint, "Released."), (job.pk, "Released.")}
    assert LogEntry.objects.get(object_id=job.fingerprint).action_flag == DELETION


def test_a_release_that_was_cut_short_is_finished_by_another(now, operator):
    job = quarantined()
    Quarantine.objects.all().delete()

    report = release([job.fingerprint], actor=operator)

    assert (report.done, report.freed) == (1, 1)


def test_content_that_is_not_quarantined_is_skipped(now, operator):
    report = release(["0" * 32], actor=operator)

    assert (report.done, report.skipped) == (0, {GONE: 1})


def test_releasing_a_job_releases_all_jobs_of_its_content(now, operator):
    job = quarantined(arguments={"value": "a"})
    waiting = queued()

    report = release_content_of([job.pk, waiting.pk, "never was"], actor=operator)

    assert (report.done, report.freed) == (1, 1)
    assert report.skipped == {State.AVAILABLE: 1, GONE: 1}


def test_many_quarantined_jobs_are_freed_in_batches(now, operator):
    job = quarantined()
    load(Backlog(count=1_200, prefix="q", state=State.QUARANTINED, payloads=False))
    Job.objects.filter(pk__startswith="q1").update(fingerprint=job.fingerprint)

    report = release([job.fingerprint], actor=operator)

    assert report.freed == 1_201
    assert not Job.objects.in_state(State.QUARANTINED).exists()
