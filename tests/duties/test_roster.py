"""A duty is performed by one worker at a time, in bounded batches."""

from __future__ import annotations

from headgate_django.core.states import State
from headgate_django.duties import lease
from headgate_django.duties.forget import forget_workers
from headgate_django.duties.quarantine import FORGET_MS as SUSPECT_MS
from headgate_django.duties.roster import BATCH, SWEEPS, Sweep, perform
from headgate_django.models import Duty, Job, Quarantine, RateBucket, RateBudget, RateClass, Suspect, Worker
from headgate_django.models.fleet import FORGET_MS
from tests.support.builders import in_state, queued, running


def test_the_first_claimant_holds_the_duty_and_the_second_is_refused(now):
    assert lease.acquire("sweep", "w1", 1_000, using="default")
    assert not lease.acquire("sweep", "w2", 1_000, using="default")
    assert lease.acquire("sweep", "w1", 1_000, using="default")


def test_an_expired_duty_is_taken_over(now):
    lease.acquire("sweep", "w1", 1_000, using="default")
    now.advance(milliseconds=1_000)

    assert lease.acquire("sweep", "w2", 1_000, using="default")
    assert not lease.acquire("sweep", "w1", 1_000, using="default")


def test_a_worker_that_ends_gives_its_duties_back_at_once(now):
    lease.acquire("sweep", "w1", 60_000, using="default")
    lease.release("w1", using="default")

    assert lease.acquire("sweep", "w2", 1_000, using="default")


def test_a_pass_works_in_batches_until_one_is_not_full_and_counts(now):
    limits = []

    def work(limit: int, using: str) -> int:
        limits.append(limit)
        return limit if len(limits) < 3 else 7

    handled = perform(Sweep("sweep", 1.0, work), "w1", using="default")

    assert handled == 2 * BATCH + 7
    assert limits == [BATCH] * 3
    assert Duty.objects.get(name="sweep").handled == handled


def test_a_pass_of_a_duty_held_elsewhere_does_nothing(now):
    lease.acquire("sweep", "w2", 60_000, using="default")

    assert perform(Sweep("sweep", 1.0, lambda limit, using: 1 / 0), "w1", using="default") is None


def test_the_roster_reclaims_evicts_sweeps_and_forgets(now):
    job, _ = running(lease_ms=1_000)
    poison = queued()
    Quarantine.objects.create(fingerprint=poison.fingerprint, kind=poison.kind, reason="test", created_at_ms=1)
    Suspect.objects.create(fingerprint="0" * 32, crash_count=1, seen_at_ms=now.at_ms - SUSPECT_MS)
    in_state(State.COMPLETED, retention_ms=1_000)
    Worker.objects.using("default").beat(
        "gone", hostname="h", pid=1, version="0", queues={}, status="running", capacity=1
    )
    budget = RateBudget.objects.create(
        rate_class=RateClass.objects.create(name="c"), limit=1, window_ms=1_000, burst=1
    )
    RateBucket.objects.create(budget=budget, level=0, refilled_at_ms=now.at_ms)
    now.advance(milliseconds=FORGET_MS + 1)

    for sweep in SWEEPS:
        assert perform(sweep, "w1", using="default") == 1, sweep.name

    states = dict(Job.objects.values_list("pk", "state"))
    assert states == {job.pk: State.RETRYABLE, poison.pk: State.QUARANTINED}
    assert Worker.objects.count() == 0
    assert list(Suspect.objects.values_list("fingerprint", flat=True)) == [job.fingerprint]


def test_a_worker_heard_of_lately_is_not_forgotten(now):
    Worker.objects.beat("alive", hostname="h", pid=1, version="0", queues={}, status="running", capacity=1)
    now.advance(milliseconds=FORGET_MS - 1)

    assert forget_workers(using="default") == 0
