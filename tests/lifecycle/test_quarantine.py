"""The crashes of all jobs of one content count together, up to quarantine; success clears them."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.core.states import Event, State
from headgate_django.exceptions import Quarantined
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle import quarantine
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.reclaim import EXPIRED, lose_leases, reclaim
from headgate_django.lifecycle.release import release
from headgate_django.models import Job, Quarantine, Suspect
from tests.support.builders import BOOM, queued, running
from tests.support.poison import LEASE, QUEUE, admit_one, crash, sibling, state

pytestmark = pytest.mark.django_db

SUCCESS = Outcome(event=Event.SUCCEED)


def crashes() -> dict[str, int]:
    return dict(Suspect.objects.values_list("fingerprint", "crash_count"))


def suspected(now: Any, count: int = 1) -> Job:
    """A job that comes after ``count`` lost workers of its content."""
    for number in range(count):
        job = sibling(priority=-number)
        crash(now, job, f"victim{number}")
        Job.objects.filter(pk=job.pk).update(scheduled_at_ms=now.at_ms + 10**9)
    return sibling()


def test_three_jobs_of_one_content_that_each_kill_a_worker_are_one_poison_pill(now):
    first, second, third = (sibling(priority=-number) for number in range(3))

    crash(now, first, "w1")
    Job.objects.filter(pk=first.pk).update(scheduled_at_ms=now.at_ms + 10**9)
    crash(now, second, "w2")
    Job.objects.filter(pk=second.pk).update(scheduled_at_ms=now.at_ms + 10**9)
    assert (state(first), state(second)) == (State.RETRYABLE, State.RETRYABLE)
    crash(now, third, "w3")

    assert (state(third), Job.objects.get(pk=third.pk).crash_attempt) == (State.QUARANTINED, 1)
    poison = Quarantine.objects.get()
    assert (poison.fingerprint, poison.kind, poison.crash_count) == (third.fingerprint, third.kind, 3)
    assert (poison.reason, poison.sample_job_id) == ("crash limit reached", third.pk)
    with pytest.raises(Quarantined):
        sibling()


def test_crashes_of_other_content_do_not_count(now):
    for number in range(3):
        crash(now, queued(queue=QUEUE, priority=-number), f"w{number}")
        Job.objects.update(scheduled_at_ms=now.at_ms + 10**9)

    assert sorted(crashes().values()) == [1, 1, 1]
    assert not Quarantine.objects.exists()


def test_a_worker_that_dies_with_many_jobs_of_one_content_is_one_crash(now):
    jobs = [sibling() for _ in range(10)]
    assert len(Gate("w1", queues={QUEUE: 1}).admit(10)) == 10
    now.advance(milliseconds=LEASE)

    assert reclaim() == 10

    assert crashes() == {jobs[0].fingerprint: 1}
    assert {state(job) for job in jobs} == {State.RETRYABLE}


def test_leases_of_one_dead_worker_that_expire_one_after_the_other_are_one_crash(now):
    jobs = [sibling() for _ in range(4)]
    for _ in jobs:
        admit_one("w1")
        now.advance(seconds=5)
    now.advance(milliseconds=LEASE - 20_000)

    for _ in jobs:
        assert reclaim() == 1
        now.advance(seconds=5)

    assert crashes() == {jobs[0].fingerprint: 1}
    assert {state(job) for job in jobs} == {State.RETRYABLE}


def test_workers_that_are_lost_together_are_known_again_when_their_other_leases_expire(now):
    for _ in range(6):
        sibling()
    for _ in range(3):
        for worker_id in ("w1", "w2"):
            admit_one(worker_id)
        now.advance(seconds=5)
    now.advance(milliseconds=LEASE - 15_000)

    for _ in range(3):
        assert reclaim() == 2
        now.advance(seconds=5)

    assert list(crashes().values()) == [2]
    assert not Quarantine.objects.exists()


def test_of_many_lost_workers_the_latest_are_remembered(now, settings):
    settings.HEADGATE = {"CRASH_LIMIT": 1_000}
    for _ in range(quarantine.MAX_WORKERS + 3):
        sibling()
    claims = [admit_one(f"w{number}") for number in range(quarantine.MAX_WORKERS + 3)]
    for claim in claims:
        now.advance(seconds=1)
        lose_leases([(claim, EXPIRED)], now_ms=now.at_ms, using="default")

    suspect = Suspect.objects.get()
    assert suspect.crash_count == quarantine.MAX_WORKERS + 3
    assert set(suspect.workers) == {f"w{number}" for number in range(3, quarantine.MAX_WORKERS + 3)}


def test_a_worker_that_crashes_again_under_the_same_name_counts_again(now):
    job = sibling()

    crash(now, job, "w1")
    crash(now, job, "w1")

    assert crashes() == {job.fingerprint: 2}


def test_workers_that_are_lost_together_count_one_each(now):
    jobs = [sibling() for _ in range(4)]
    for number in range(2):
        Gate(f"w{number}", queues={QUEUE: 1}).admit(2)
    now.advance(milliseconds=LEASE)

    assert reclaim() == 4

    assert crashes() == {jobs[0].fingerprint: 2}


def test_at_the_limit_all_jobs_of_the_content_that_are_lost_now_are_quarantined(now):
    suspected(now)
    twins = [sibling() for _ in range(4)]
    for worker_id in ("w1", "w2"):
        Gate(worker_id, queues={QUEUE: 1}).admit(2)
    admit_one("w1")  # the job that came after the first crash
    healthy, _ = running(worker_id="w1")
    now.advance(milliseconds=LEASE)

    reclaim()

    assert {state(job) for job in twins} == {State.QUARANTINED}
    assert state(healthy) == State.RETRYABLE
    assert Quarantine.objects.get().crash_count == 3


def test_a_jobs_own_crashes_count_even_when_the_suspicion_is_forgotten(now):
    job = sibling()
    crash(now, job, "w1")
    crash(now, job, "w2")
    Suspect.objects.all().delete()

    crash(now, job, "w3")

    assert state(job) == State.QUARANTINED
    assert Quarantine.objects.get().crash_count == 3


def test_the_limit_of_the_correlated_count_is_the_setting(now, settings):
    settings.HEADGATE = {"CRASH_LIMIT": 2}
    job = suspected(now, 1)

    crash(now, job, "w2")

    assert state(job) == State.QUARANTINED


def test_a_run_of_quarantined_content_that_is_lost_joins_the_quarantine(now, settings):
    settings.HEADGATE = {"CRASH_LIMIT": 100}
    job, _ = running(queue=QUEUE, arguments={"value": "poison"})
    Quarantine.objects.create(
        fingerprint=job.fingerprint, kind="k", reason="by hand", crash_count=7, created_at_ms=5, sample_job_id="x"
    )
    now.advance(milliseconds=LEASE)

    reclaim()

    assert state(job) == State.QUARANTINED
    row = Quarantine.objects.get()
    assert (row.reason, row.crash_count, row.created_at_ms, row.sample_job_id) == ("by hand", 7, 5, "x")


def test_success_clears_the_suspicion(now):
    job = suspected(now, 2)
    claim = admit_one("w1")
    assert claim.suspect == job.fingerprint

    assert ack([(claim, SUCCESS)]) == []

    assert crashes() == {}
    crash(now, sibling(), "w2")
    assert not Quarantine.objects.exists()


@pytest.mark.parametrize("retention_ms", [0, 60_000])
def test_a_success_that_leaves_no_row_clears_it_too(now, retention_ms):
    suspected(now)
    Job.objects.update(retention_ms=retention_ms)

    ack([(admit_one("w1"), SUCCESS)])

    assert crashes() == {}


@pytest.mark.parametrize("event", [Event.RETRY, Event.SKIP, Event.SNOOZE, Event.INTERRUPT])
def test_only_success_clears_it(now, event):
    job = suspected(now)

    ack([(admit_one("w1"), Outcome(event=event, delay_ms=1, failure=BOOM))])

    assert crashes() == {job.fingerprint: 1}


def test_a_success_without_the_lease_clears_nothing(now):
    job = suspected(now)
    claim = admit_one("w1")
    now.advance(milliseconds=LEASE)
    reclaim()

    assert ack([(claim, SUCCESS)]) == [claim]

    assert crashes() == {job.fingerprint: 2}


def test_the_ack_of_healthy_jobs_is_one_statement_also_beside_suspects(now):
    suspected(now, 2)
    claims: list[Claim] = [running(queue="other")[1] for _ in range(5)]

    with CaptureQueriesContext(connection) as queries:
        assert ack([(claim, SUCCESS) for claim in claims]) == []

    assert len(queries) == 1


def test_after_a_release_the_crashes_of_the_content_are_counted_from_zero(now):
    job = suspected(now, 2)
    crash(now, job, "w3")
    release(job.fingerprint)
    assert crashes() == {}
    Job.objects.exclude(pk=job.pk).update(scheduled_at_ms=now.at_ms + 10**10)

    crash(now, job, "w4")

    assert (state(job), crashes()) == (State.RETRYABLE, {job.fingerprint: 1})
