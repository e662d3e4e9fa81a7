"""Promote, cancel, discard, redrive and release, as an operator uses them."""

from __future__ import annotations

from typing import Any

import pytest

from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import STORED, TERMINAL, WAITING, Event, State
from headgate_django.exceptions import InvalidJob
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.cancel import cancel, discard
from headgate_django.lifecycle.promote import promote
from headgate_django.lifecycle.redrive import redrive
from headgate_django.lifecycle.release import release
from headgate_django.models import ArchivedJob, Attempt, Job, JobQuerySet, Payload, Quarantine
from tests.support.builders import BOOM, ended, in_state, quarantined, queued, running

pytestmark = pytest.mark.django_db

INT32_MAX = 2**31 - 1


def only(job: Job) -> JobQuerySet:
    return Job.objects.filter(pk=job.pk)


def row(job: Job) -> dict[str, Any]:
    return only(job).values().get()


@pytest.mark.parametrize("state", sorted(WAITING - {State.AVAILABLE}))
def test_a_promoted_job_is_due_now_and_admitted(now, state):
    job = in_state(state)
    now.advance(milliseconds=5)

    assert promote(only(job)) == 1

    assert (row(job)["state"], row(job)["scheduled_at_ms"]) == (State.AVAILABLE, now.at_ms)
    assert [claim.id for claim in Gate("w1", queues={job.queue: 1}).admit(5)] == [job.pk]


def test_a_cancelled_run_loses_its_lease_and_cannot_end_itself(now):
    job, claim = running()

    assert cancel(only(job)) == 1

    after = row(job)
    assert (after["state"], after["lease_id"], after["fence"]) == (State.CANCELLED, "", 1)
    assert after["finalized_at_ms"] == now.at_ms
    assert ack([(claim, Outcome(event=Event.RETRY, failure=BOOM))]) == [claim]
    assert row(job)["attempt"] == 0


def test_after_a_cancel_nothing_brings_the_job_back_by_itself(now):
    job = queued(delay_ms=1_000)
    cancel(only(job))
    now.advance(days=1)

    assert Gate("w1").admit(5) == []
    assert row(job)["state"] == State.CANCELLED


@pytest.mark.parametrize("state", sorted(STORED))
def test_only_finished_jobs_are_discarded_with_all_that_belongs_to_them(now, state):
    job = in_state(state)

    assert discard(only(job)) == (state in TERMINAL)

    left = [only(job).exists(), Payload.objects.filter(pk=job.pk).exists()]
    assert left == [state not in TERMINAL] * 2
    if state in TERMINAL:
        assert not Attempt.objects.filter(job_id=job.pk).exists()


@pytest.mark.parametrize("state", [State.ARCHIVED, State.CANCELLED, State.UNDECODABLE])
def test_a_redriven_job_is_available_now_and_keeps_its_history(now, state):
    job = in_state(state)
    before = row(job)
    now.advance(minutes=5)

    assert redrive(only(job)) == 1

    after = row(job)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"state", "finalized_at_ms", "scheduled_at_ms"}
    assert (after["state"], after["finalized_at_ms"], after["scheduled_at_ms"]) == ("available", None, now.at_ms)


def test_an_exhausted_job_dies_again_at_its_next_failure_unless_it_gets_more_attempts(now):
    job = ended(Event.RETRY, max_attempts=1)

    assert redrive(only(job)) == 1
    assert fail_once(job) == State.ARCHIVED  # the second failure of one that was allowed
    assert redrive(only(job), extra_attempts=2) == 1
    assert [fail_once(job), fail_once(job)] == [State.RETRYABLE, State.ARCHIVED]

    assert (row(job)["attempt"], row(job)["max_attempts"]) == (4, 4)


def fail_once(job: Job) -> str:
    [claim] = Gate("w1", queues={job.queue: 1}).admit(1)
    ack([(claim, Outcome(event=Event.RETRY, delay_ms=0, failure=BOOM))])
    return row(job)["state"]


@pytest.mark.parametrize("extra", [-1, 1_001, True, 1.5, "3", None])
def test_another_number_of_extra_attempts_is_refused(now, extra):
    job = in_state(State.ARCHIVED)
    before = row(job)

    with pytest.raises(InvalidJob, match="extra_attempts: must be between 0 and 1000"):
        redrive(only(job), extra_attempts=extra)

    assert row(job) == before


@pytest.mark.parametrize("column", ["max_attempts", "attempt"])
def test_a_job_without_room_for_more_attempts_is_left_and_not_counted(now, column):
    full, fine = in_state(State.ARCHIVED), in_state(State.ARCHIVED)
    only(full).update(**{column: INT32_MAX})

    assert redrive(Job.objects.all(), extra_attempts=5) == 1

    assert (row(full)["state"], row(fine)["state"]) == (State.ARCHIVED, State.AVAILABLE)
    assert redrive(Job.objects.all()) == 1


def test_a_job_that_died_of_its_deadline_runs_after_a_redrive(now):
    job = queued(deadline_in_ms=1_000)
    now.advance(seconds=2)
    assert Gate("w1").admit(1) == []
    assert row(job)["state"] == State.ARCHIVED

    redrive(only(job))

    assert [claim.id for claim in Gate("w1").admit(1)] == [job.pk]


def test_a_deadline_that_is_still_to_come_survives_a_redrive(now):
    job = queued(deadline_in_ms=60_000)
    cancel(only(job))

    redrive(only(job))

    assert row(job)["deadline_ms"] == now.at_ms + 60_000


def test_dead_letters_are_redriven_through_their_own_model(now):
    job = in_state(State.ARCHIVED)
    in_state(State.CANCELLED)

    assert redrive(ArchivedJob.objects.in_state(State.ARCHIVED)) == 1
    assert row(job)["state"] == State.AVAILABLE


def test_a_release_frees_the_content_and_its_jobs(now):
    job = quarantined(arguments={"value": "poison"})
    only(job).update(crash_attempt=3)
    other = quarantined(arguments={"value": "other"})
    now.advance(seconds=1)

    assert release(job.fingerprint) == 1

    assert (row(job)["state"], row(job)["crash_attempt"]) == (State.AVAILABLE, 0)
    assert row(job)["scheduled_at_ms"] == now.at_ms
    assert row(other)["state"] == State.QUARANTINED
    assert [quarantine.fingerprint for quarantine in Quarantine.objects.all()] == [other.fingerprint]
    assert queued(arguments={"value": "poison"}).state == State.AVAILABLE


def test_a_release_moves_only_quarantined_jobs(now):
    poison = quarantined(arguments={"value": "poison"})
    Quarantine.objects.all().delete()
    dead = in_state(State.ARCHIVED, arguments={"value": "poison"})

    assert release(poison.fingerprint) == 1
    assert row(dead)["state"] == State.ARCHIVED


def test_releasing_what_is_not_quarantined_is_no_job(now):
    assert release("0" * 32) == 0


def test_a_quarantined_job_is_not_redriven(now):
    job = in_state(State.QUARANTINED)

    assert redrive(only(job)) == 0
    assert row(job)["state"] == State.QUARANTINED


def test_verbs_over_nothing_move_nothing(now):
    for verb in (promote, cancel, discard, redrive):
        assert verb(Job.objects.none()) == 0
        assert verb(Job.objects.filter(pk="unknown")) == 0
