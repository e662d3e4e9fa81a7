"""Two verbs meet on one job. One holds the row, the other is seen to wait for it; then the first commits."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.core.states import Event, State
from headgate_django.exceptions import LeaseLost
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack, ack_one
from headgate_django.lifecycle.cancel import cancel
from headgate_django.lifecycle.evict import evict
from headgate_django.lifecycle.promote import promote
from headgate_django.lifecycle.reclaim import reclaim
from headgate_django.lifecycle.redrive import redrive
from headgate_django.lifecycle.release import release
from headgate_django.lifecycle.renew import renew
from headgate_django.models import Job, Quarantine
from tests.support.builders import in_state, queued, running
from tests.support.locks import Running, held, wait_until_blocked

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="SQLite has one writer: there is nothing to race"
    ),
]

SUCCESS = Outcome(event=Event.SUCCEED)
LEASE = 30_000


def one(job: Job):
    return Job.objects.filter(pk=job.pk)


def state(job: Job) -> str:
    return one(job).values_list("state", flat=True).get()


def poison(job: Job) -> None:
    Quarantine.objects.create(fingerprint=job.fingerprint, kind=job.kind, reason="test", created_at_ms=1)


def after(first: Callable[[], object], second: Callable[[], object]) -> object:
    """What ``second`` returns when it had to wait for the transaction of ``first``, which commits."""
    with held(first) as commit:
        waiting = Running(second)
        wait_until_blocked(waiting)
        commit()
    return waiting.result()


def test_a_cancel_that_waits_for_an_admit_cancels_the_running_job(now):
    job = queued()
    claims: list[Claim] = []

    assert after(lambda: claims.extend(Gate("w1").admit(1)), lambda: cancel(one(job))) == 1

    assert state(job) == State.CANCELLED
    with pytest.raises(LeaseLost):
        ack_one(claims[0], SUCCESS)


def test_an_admit_passes_over_a_job_that_is_being_cancelled(now):
    job = queued()

    with held(lambda: cancel(one(job))) as commit:
        assert Gate("w1").admit(1) == []
        commit()

    assert state(job) == State.CANCELLED


def test_an_admit_passes_over_a_job_that_is_being_promoted_and_takes_it_afterwards(now):
    job = queued(delay_ms=60_000)

    with held(lambda: promote(one(job))) as commit:
        assert Gate("w1").admit(1) == []
        commit()

    assert [claim.id for claim in Gate("w1").admit(1)] == [job.id]


def test_an_ack_that_waits_for_a_cancel_is_refused(now):
    job, claim = running()

    assert after(lambda: cancel(one(job)), lambda: ack([(claim, SUCCESS)])) == [claim]

    assert state(job) == State.CANCELLED


def test_an_ack_that_waited_for_a_cancel_that_rolled_back_holds(now):
    job, claim = running()

    with held(lambda: cancel(one(job))):
        acking = Running(lambda: ack([(claim, SUCCESS)]))
        wait_until_blocked(acking)

    assert acking.result() == []
    assert state(job) == State.COMPLETED


def test_a_cancel_that_waits_for_an_ack_is_too_late(now):
    job, claim = running()

    assert after(lambda: ack([(claim, SUCCESS)]), lambda: cancel(one(job))) == 0

    assert state(job) == State.COMPLETED


def test_of_two_acks_of_one_claim_the_second_is_refused(now):
    job, claim = running()
    retry = Outcome(event=Event.RETRY, delay_ms=1_000)

    assert after(lambda: ack([(claim, SUCCESS)]), lambda: ack([(claim, retry)])) == [claim]

    assert state(job) == State.COMPLETED


def test_of_two_acks_that_delete_the_second_is_refused(now):
    job, claim = running(retention_ms=0)

    assert after(lambda: ack([(claim, SUCCESS)]), lambda: ack([(claim, SUCCESS)])) == [claim]

    assert not one(job).exists()


def test_a_renewal_that_waits_for_a_reclaim_is_refused(now):
    job, claim = running()
    now.advance(milliseconds=LEASE)

    assert after(reclaim, lambda: renew([claim], LEASE)) == [claim]

    assert state(job) == State.RETRYABLE


def test_a_reclaim_passes_over_a_lease_that_is_being_renewed(now):
    job, claim = running()
    now.advance(milliseconds=LEASE)

    with held(lambda: renew([claim], LEASE)) as commit:
        assert reclaim() == 0
        commit()

    assert reclaim() == 0
    assert state(job) == State.RUNNING


def test_a_reclaim_passes_over_a_run_that_is_being_acked(now):
    job, claim = running()
    now.advance(milliseconds=LEASE)

    with held(lambda: ack([(claim, SUCCESS)])) as commit:
        assert reclaim() == 0
        commit()

    assert state(job) == State.COMPLETED


def test_an_eviction_passes_over_a_job_that_is_being_redriven(now):
    job = in_state(State.ARCHIVED)
    now.advance(days=8)

    with held(lambda: redrive(one(job))) as commit:
        assert evict() == 0
        commit()

    assert evict() == 0
    assert state(job) == State.AVAILABLE


def test_a_redrive_that_waits_for_an_eviction_finds_nothing(now):
    job = in_state(State.ARCHIVED)
    now.advance(days=8)

    assert after(evict, lambda: redrive(one(job))) == 0

    assert not one(job).exists()


def test_a_release_that_waits_for_the_gate_frees_what_the_gate_has_just_quarantined(now):
    job = queued()
    poison(job)

    assert after(lambda: Gate("w1").admit(1), lambda: release(job.fingerprint)) == 1

    assert state(job) == State.AVAILABLE


def test_the_gate_leaves_a_job_alone_whose_content_is_being_released(now):
    job = queued()
    poison(job)

    with held(lambda: release(job.fingerprint)) as commit:
        assert Gate("w1").admit(1) == []
        commit()

    assert state(job) == State.AVAILABLE
    assert len(Gate("w1").admit(1)) == 1


def test_a_release_that_waits_for_a_reclaim_frees_what_it_has_just_quarantined(now, settings):
    settings.HEADGATE = {"CRASH_LIMIT": 1}
    job, _ = running()
    poison(job)
    now.advance(milliseconds=LEASE)

    assert after(reclaim, lambda: release(job.fingerprint)) == 1

    assert state(job) == State.AVAILABLE
    assert not Quarantine.objects.exists()
