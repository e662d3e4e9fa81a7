"""Expired leases are taken back: counted as crashes, apart from failures, up to quarantine."""

from __future__ import annotations

import os
from typing import Any

import pytest

from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.core.states import Event, State
from headgate_django.exceptions import Quarantined
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.cancel import cancel
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.lifecycle.reclaim import EXPIRED, claim_of, lose_leases, reclaim
from headgate_django.lifecycle.release import release
from headgate_django.models import Job, Quarantine, Worker
from tests.support.builders import BOOM, EnvelopeFactory, quarantined, queued, running
from tests.support.locks import Running, held, wait_until_blocked

pytestmark = pytest.mark.django_db

LEASE = 30_000
racing = pytest.mark.skipif(
    os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="SQLite has one writer: there is nothing to race"
)


def row(job: Job | Claim) -> dict[str, Any]:
    return Job.objects.filter(pk=job.id).values().get()


def crash(now: Any, job: Job) -> None:
    """One more run of the job whose worker vanishes."""
    now.advance(minutes=10)
    [claim] = Gate("w1", queues={job.queue: 1}).admit(1)
    assert claim.id == job.pk
    now.advance(milliseconds=LEASE)
    assert reclaim() == 1


def test_a_lease_is_taken_back_at_its_expiry_and_not_before(now):
    job, _ = running(lease_ms=LEASE)

    now.advance(milliseconds=LEASE - 1)
    assert reclaim() == 0
    now.advance(milliseconds=1)
    assert reclaim() == 1

    assert row(job)["state"] == State.RETRYABLE


def test_a_crash_is_counted_apart_from_failures_and_leaves_its_trace(now):
    job, claim = running()
    ack([(claim, Outcome(event=Event.RETRY, delay_ms=0, failure=BOOM))])

    crash(now, job)

    after = row(job)
    assert (after["attempt"], after["crash_attempt"], after["interruptions"]) == (1, 1, 0)
    assert (after["error_class"], after["error_summary"]) == ("LeaseLost", "lease expired without ack")
    assert after["scheduled_at_ms"] > now.at_ms
    last = job.attempts.last()
    assert (last.number, last.outcome, last.worker_id) == (2, Event.LOSE_LEASE, "w1")
    assert last.duration_ms == LEASE


def test_a_reclaimed_job_is_admitted_again_with_the_next_fence(now):
    job, _ = running()
    now.advance(seconds=31)
    reclaim()
    now.advance(minutes=2)

    [claim] = Gate("w2", queues={job.queue: 1}).admit(1)

    assert (claim.id, claim.fence, claim.crash_attempt, claim.attempt) == (job.pk, 2, 1, 0)


def test_whether_the_workers_own_row_still_exists_does_not_matter(now):
    job, _ = running(worker_id="gone")
    assert not Worker.objects.exists()
    now.advance(seconds=31)

    assert reclaim() == 1
    assert row(job)["state"] == State.RETRYABLE


def test_at_the_crash_limit_job_and_content_are_quarantined(now):
    job = queued(queue="builders", arguments={"value": "poison"}, max_attempts=1_000)
    for _ in range(3):
        crash(now, job)

    assert (row(job)["state"], row(job)["crash_attempt"], row(job)["attempt"]) == (State.QUARANTINED, 3, 0)
    quarantine = Quarantine.objects.get()
    assert (quarantine.fingerprint, quarantine.kind) == (job.fingerprint, job.kind)
    assert (quarantine.sample_job_id, quarantine.crash_count) == (job.pk, 3)
    assert (quarantine.created_at_ms, quarantine.reason) == (now.at_ms, "crash limit reached")
    with pytest.raises(Quarantined):
        enqueue([EnvelopeFactory(arguments={"value": "poison"})])


def test_the_crash_limit_is_a_setting(now, settings):
    settings.HEADGATE = {"CRASH_LIMIT": 1}
    job, _ = running()
    now.advance(seconds=31)

    reclaim()

    assert row(job)["state"] == State.QUARANTINED


def test_failures_and_interruptions_never_quarantine(now):
    job, claim = running(max_attempts=1_000)
    for event in [Event.RETRY, Event.INTERRUPT] * 5:
        ack([(claim, Outcome(event=event, delay_ms=0, failure=BOOM))])
        [claim] = Gate("w1", queues={job.queue: 1}).admit(1)

    assert (row(job)["state"], row(job)["crash_attempt"]) == (State.RUNNING, 0)
    assert not Quarantine.objects.exists()


def test_crashes_never_use_up_the_attempts(now):
    job = queued(queue="builders", max_attempts=1)

    crash(now, job)

    assert row(job)["state"] == State.RETRYABLE


def test_after_a_release_the_crashes_are_counted_from_zero(now):
    job = queued(queue="builders")
    for _ in range(3):
        crash(now, job)
    release(job.fingerprint)

    crash(now, job)

    assert (row(job)["state"], row(job)["crash_attempt"]) == (State.RETRYABLE, 1)


def test_twins_that_reach_the_limit_together_share_one_quarantine(now):
    jobs = [queued(queue="builders", arguments={"value": "poison"}) for _ in range(5)]
    Job.objects.all().update(crash_attempt=2)
    Gate("w1", queues={"builders": 1}).admit(5)
    now.advance(seconds=31)

    assert reclaim() == 5

    assert {row(job)["state"] for job in jobs} == {State.QUARANTINED}
    assert Quarantine.objects.count() == 1


def test_a_job_that_finished_after_the_sweep_read_it_is_left_alone(now):
    finished, claim = running()
    stranded, _ = running()
    now.advance(seconds=31)
    read = [claim_of(job) for job in Job.objects.in_state(State.RUNNING)]
    ack([(claim, Outcome(event=Event.SUCCEED))])
    before = row(finished)

    held = lose_leases([(claim, EXPIRED) for claim in read], now_ms=now.at_ms, using="default")

    assert held == {(stranded.pk, 1)}
    assert row(finished) == before
    assert row(stranded)["state"] == State.RETRYABLE
    assert not finished.attempts.exists()


def test_a_job_that_runs_again_since_the_sweep_read_it_is_left_alone(now):
    job, _ = running()
    now.advance(seconds=31)
    read = [claim_of(found) for found in Job.objects.in_state(State.RUNNING)]
    reclaim()
    now.advance(minutes=2)
    Gate("w2", queues={job.queue: 1}).admit(1)
    before = row(job)

    assert lose_leases([(claim, EXPIRED) for claim in read], now_ms=now.at_ms, using="default") == set()

    assert row(job) == before
    assert not Quarantine.objects.exists()


def test_a_job_cancelled_while_it_ran_is_not_taken_back(now):
    job, _ = running()
    cancel(Job.objects.filter(pk=job.pk))
    now.advance(days=1)

    assert reclaim() == 0
    assert row(job)["state"] == State.CANCELLED


def test_a_pass_takes_the_longest_expired_first_and_no_more_than_its_limit(now):
    jobs = []
    for _ in range(5):
        jobs.append(running()[0])
        now.advance(seconds=1)
    now.advance(minutes=1)

    assert reclaim(limit=2) == 2
    assert [row(job)["state"] for job in jobs] == ["retryable"] * 2 + ["running"] * 3
    assert [reclaim(limit=2) for _ in range(3)] == [2, 1, 0]


def test_recovered_jobs_come_back_apart(now):
    for _ in range(100):
        queued()
    Gate("w1").admit(100)
    now.advance(seconds=31)

    assert reclaim() == 100

    assert len(set(Job.objects.values_list("scheduled_at_ms", flat=True))) > 50


@racing
@pytest.mark.django_db(transaction=True)
def test_a_poison_that_strikes_while_its_content_is_released_is_quarantined_again(now):
    poison = quarantined(arguments={"value": "poison"})
    Quarantine.objects.all().delete()
    twin, _ = running(arguments={"value": "poison"})
    Job.objects.filter(pk=twin.pk).update(crash_attempt=2)
    Quarantine.objects.create(fingerprint=twin.fingerprint, kind=twin.kind, reason="test", created_at_ms=1)
    now.advance(seconds=31)

    with held(lambda: release(twin.fingerprint)) as commit:
        sweep = Running(reclaim)
        wait_until_blocked(sweep)
        commit()

    assert sweep.result() == 1
    assert (row(poison)["state"], row(twin)["state"]) == (State.AVAILABLE, State.QUARANTINED)
    assert Quarantine.objects.get().sample_job_id == twin.pk


def test_the_claim_of_a_running_row_is_the_one_its_worker_holds(now):
    job, claim = running()
    job.refresh_from_db()

    read = claim_of(job)

    private = {"payload", "headers"}
    for name in set(Claim.__slots__) - private:
        assert getattr(read, name) == getattr(claim, name), name
