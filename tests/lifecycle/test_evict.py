"""Finished jobs are deleted when their retention has passed, in bounded batches; quarantined ones never."""

from __future__ import annotations

import pytest

from headgate_django.core.durations import MAX_MS
from headgate_django.core.states import STORED, TERMINAL, State
from headgate_django.lifecycle.evict import evict
from headgate_django.lifecycle.redrive import redrive
from headgate_django.lifecycle.release import release
from headgate_django.models import Attempt, Job, Payload
from tests.support.builders import cancelled, in_state, queued

pytestmark = pytest.mark.django_db

HOUR = 3_600_000


@pytest.mark.parametrize("state", sorted(TERMINAL - {State.QUARANTINED}))
def test_a_finished_job_goes_at_the_millisecond_its_retention_has_passed(now, state):
    in_state(state, retention_ms=HOUR)

    now.advance(milliseconds=HOUR - 1)
    assert evict() == 0
    now.advance(milliseconds=1)
    assert evict() == 1

    assert [model.objects.count() for model in (Job, Payload, Attempt)] == [0, 0, 0]


@pytest.mark.parametrize("state", sorted(STORED - TERMINAL | {State.QUARANTINED}))
def test_what_has_not_ended_or_is_quarantined_is_never_evicted(now, state):
    in_state(state, retention_ms=1)
    now.advance(days=3_650)

    assert evict() == 0
    assert Job.objects.count() == 1


def test_a_released_job_is_evicted_like_any_other_once_it_has_ended(now):
    job = in_state(State.QUARANTINED, retention_ms=HOUR)
    release(job.fingerprint)
    Job.objects.get().transition("cancel", now_ms=now.at_ms)
    now.advance(milliseconds=HOUR)

    assert evict() == 1


def test_without_retention_a_dead_job_is_kept_for_an_operator(now):
    in_state(State.ARCHIVED, retention_ms=0)
    cancelled(retention_ms=0)
    now.advance(days=3_650)

    assert evict() == 0
    assert redrive(Job.objects.all()) == 2


def test_retention_counts_from_the_last_end(now):
    job = cancelled(retention_ms=HOUR)
    now.advance(milliseconds=HOUR - 1)
    redrive(Job.objects.filter(pk=job.pk))
    Job.objects.get().transition("cancel", now_ms=now.at_ms)
    now.advance(milliseconds=HOUR - 1)

    assert evict() == 0
    now.advance(milliseconds=1)
    assert evict() == 1


def test_a_pass_is_bounded_and_takes_the_longest_overdue_first(now):
    old = [cancelled(retention_ms=HOUR) for _ in range(3)]
    now.advance(minutes=1)
    young = [cancelled(retention_ms=HOUR) for _ in range(2)]
    now.advance(days=1)

    assert evict(limit=3) == 3
    assert not Job.objects.filter(pk__in=[job.pk for job in old]).exists()
    assert Job.objects.filter(pk__in=[job.pk for job in young]).count() == 2
    assert [evict(limit=3), evict(limit=3)] == [2, 0]


def test_jobs_that_are_not_due_are_left_when_others_go(now):
    kept = [queued(), cancelled(retention_ms=10 * HOUR)]
    for _ in range(3):
        cancelled(retention_ms=HOUR)
    now.advance(milliseconds=HOUR)

    assert evict() == 3
    assert set(Job.objects.all()) == set(kept)


def test_the_longest_retention_does_not_overflow(now):
    cancelled(retention_ms=MAX_MS)
    now.advance(milliseconds=MAX_MS - 1)
    assert evict() == 0
    now.advance(milliseconds=1)
    assert evict() == 1
