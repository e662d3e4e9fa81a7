"""A canary: one job of quarantined content runs ahead. The others follow it, or stay, as it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.core.states import Event, State
from headgate_django.duties.quarantine import sweep_quarantine
from headgate_django.exceptions import Quarantined
from headgate_django.gate.admit import Gate
from headgate_django.gate.explain import explain
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.cancel import cancel, discard
from headgate_django.lifecycle.reclaim import claim_of, reclaim
from headgate_django.lifecycle.redrive import redrive
from headgate_django.lifecycle.release import release
from headgate_django.models import Job, Quarantine, Suspect, Worker
from tests.support.builders import BOOM, queued
from tests.support.poison import LEASE, QUEUE, admit_one, in_quarantine, sibling, state

pytestmark = pytest.mark.django_db


def selection(job: Job) -> Any:
    return Job.objects.filter(pk=job.pk)


def sent(now: Any, **options: Any) -> tuple[Job, list[Job]]:
    """A canary that waits for its run, and the others of its content."""
    canary, *others = in_quarantine(now, **options)
    assert release(canary.fingerprint, canary=True) == 1
    now.advance(seconds=1)
    return canary, others


def end(claim: Claim, event: Event) -> None:
    assert ack([(claim, Outcome(event=event, delay_ms=0, failure=BOOM))]) == []


def sweep() -> int:
    return sweep_quarantine(500, "default")


def test_only_the_oldest_job_becomes_available(now):
    canary, *others = in_quarantine(now)
    Job.objects.filter(pk=canary.pk).update(crash_attempt=3)
    now.advance(seconds=1)

    assert release(canary.fingerprint, canary=True) == 1

    stored = Job.objects.get(pk=canary.pk)
    assert (stored.state, stored.scheduled_at_ms, stored.crash_attempt) == (State.AVAILABLE, now.at_ms, 0)
    assert {state(job) for job in others} == {State.QUARANTINED}
    assert Quarantine.objects.get().canary_job_id == canary.pk


@pytest.mark.parametrize("portable", [False, True])
def test_the_gate_lets_the_canary_pass_and_no_other_job_of_the_content(now, portable):
    canary, _ = sent(now)
    late = queued(queue=QUEUE)
    Job.objects.filter(pk=late.pk).update(fingerprint=canary.fingerprint)

    claims = Gate("w1", queues={QUEUE: 1}, portable=portable).admit(10)

    assert [claim.id for claim in claims] == [canary.pk]
    assert state(late) == State.QUARANTINED


def test_while_the_canary_is_out_new_jobs_of_the_content_are_refused(now):
    sent(now)

    with pytest.raises(Quarantined):
        sibling()


def test_the_sweep_leaves_the_canary_alone(now):
    canary, _ = sent(now)
    Quarantine.objects.update(is_swept=False)

    assert sweep() == 0

    assert state(canary) == State.AVAILABLE


def test_explain_calls_the_canary_admissible_and_says_what_the_others_wait_for(now):
    Worker.objects.beat("w1", hostname="h", pid=1, version="1", queues={"*": 1}, capacity=1)
    canary, _ = sent(now)
    late = queued(queue=QUEUE)
    Job.objects.filter(pk=late.pk).update(fingerprint=canary.fingerprint)

    assert explain(canary).admissible
    found = explain(late)
    assert (found.admissible, found.blocked_by) == (False, "quarantine")
    assert f"job {canary.pk} runs ahead" in found.detail


@pytest.mark.parametrize("retention_ms", [0, 60_000])
def test_when_the_canary_succeeds_the_others_follow_and_the_quarantine_is_gone(now, retention_ms):
    _, others = sent(now, retention_ms=retention_ms)

    end(admit_one("w1"), Event.SUCCEED)
    assert sibling().state == State.AVAILABLE  # at once
    assert sweep() == 2

    assert {state(job) for job in others} == {State.AVAILABLE}
    assert not Quarantine.objects.exists()
    assert not Suspect.objects.exists()


def test_the_others_follow_in_batches_and_the_last_one_ends_the_quarantine(now):
    canary, others = sent(now, count=8)
    end(admit_one("w1"), Event.SUCCEED)

    followed, kept = [], []
    for _ in range(4):
        followed.append(sweep_quarantine(3, "default"))
        kept.append(Quarantine.objects.filter(fingerprint=canary.fingerprint).exists())

    assert (followed, kept) == ([3, 3, 1, 0], [True, True, False, False])
    assert {state(job) for job in others} == {State.AVAILABLE}


def test_jobs_that_are_free_already_may_run_while_the_others_still_follow(now):
    sent(now, count=4)
    end(admit_one("w1"), Event.SUCCEED)
    assert sweep_quarantine(1, "default") == 1

    assert len(Gate("w1", queues={QUEUE: 1}).admit(10)) == 1


def test_a_success_of_a_canary_whose_claim_knew_nothing_is_noticed(now):
    canary, others = sent(now)
    admit_one("w1")
    end(claim_of(Job.objects.get(pk=canary.pk)), Event.SUCCEED)

    assert [sweep(), sweep()] == [1 + 2, 0]

    assert {state(job) for job in others} == {State.AVAILABLE}


def test_a_canary_that_crashes_goes_straight_back_and_is_none_any_more(now, settings):
    settings.HEADGATE = {"CRASH_LIMIT": 100}
    canary, others = sent(now)
    admit_one("w1")
    now.advance(milliseconds=LEASE)

    assert reclaim() == 1

    assert {state(job) for job in (canary, *others)} == {State.QUARANTINED}
    poison = Quarantine.objects.get()
    assert (poison.canary_job_id, poison.reason, poison.crash_count) == ("", "its canary crashed", 3)
    assert release(canary.fingerprint, canary=True) == 1  # the next try


def test_a_crash_of_another_job_of_the_content_leaves_the_canary_out(now):
    canary, _ = sent(now)
    other = queued(queue="elsewhere")
    Gate("w2", queues={"elsewhere": 1}, lease_ms=LEASE).admit(1)
    Job.objects.filter(pk=other.pk).update(fingerprint=canary.fingerprint)
    now.advance(milliseconds=LEASE)

    reclaim()

    assert state(other) == State.QUARANTINED
    poison = Quarantine.objects.get()
    assert (poison.canary_job_id, poison.reason) == (canary.pk, "test")


@pytest.mark.parametrize("event", [Event.RETRY, Event.SNOOZE, Event.RATE_LIMIT, Event.INTERRUPT])
def test_a_canary_that_is_not_done_runs_again(now, event):
    canary, others = sent(now)
    end(admit_one("w1"), event)
    now.advance(seconds=1)

    assert sweep() == 0
    assert admit_one("w2").id == canary.pk

    assert {state(job) for job in others} == {State.QUARANTINED}


def ended_by(event: Event) -> Callable[[Job, Any], None]:
    return lambda job, now: end(admit_one("w1"), event)


def cancelled(job: Job, now: Any) -> None:
    assert cancel(selection(job)) == 1


def discarded(job: Job, now: Any) -> None:
    cancelled(job, now)
    assert discard(selection(job)) == 1


def too_late(job: Job, now: Any) -> None:
    selection(job).update(deadline_ms=now.at_ms)
    assert Gate("w1", queues={QUEUE: 1}).admit(1) == []


@pytest.mark.parametrize(
    ("happens", "ended"),
    [
        (ended_by(Event.SKIP), State.ARCHIVED),
        (ended_by(Event.UNDECODABLE), State.UNDECODABLE),
        (ended_by(Event.REVOKE), State.DELETED),
        (too_late, State.ARCHIVED),
        (cancelled, State.CANCELLED),
        (discarded, State.DELETED),
    ],
)
def test_a_canary_that_ends_otherwise_proves_nothing_and_the_reason_is_shown(now, happens, ended):
    canary, others = sent(now)
    happens(canary, now)
    assert state(canary) == ended

    assert sweep() == 1

    poison = Quarantine.objects.get()
    assert (poison.canary_job_id, poison.reason) == ("", f"its canary was {ended}")
    assert poison.sample_job_id == ("" if ended is State.DELETED else canary.pk)
    assert {state(job) for job in others} == {State.QUARANTINED}
    with pytest.raises(Quarantined):
        sibling()
    assert sweep() == 0


def test_a_canary_that_was_redriven_before_anybody_looked_is_still_the_canary(now):
    canary, _ = sent(now)
    end(admit_one("w1"), Event.SKIP)
    redrive(selection(canary))

    assert sweep() == 0

    assert admit_one("w1").id == canary.pk


def test_a_release_of_everything_takes_the_canary_along(now):
    canary, others = sent(now)

    assert release(canary.fingerprint) == 2

    assert {state(job) for job in (canary, *others)} == {State.AVAILABLE}
    assert not Quarantine.objects.exists()
    assert len(Gate("w1", queues={QUEUE: 1}).admit(10)) == 3


def test_a_second_canary_is_not_sent(now):
    canary, others = sent(now)

    assert release(canary.fingerprint, canary=True) == 0

    assert Quarantine.objects.get().canary_job_id == canary.pk
    assert {state(job) for job in others} == {State.QUARANTINED}


def test_without_quarantine_or_without_a_job_no_canary_is_sent(now):
    assert release("0" * 32, canary=True) == 0
    [job] = in_quarantine(now, count=1)
    discard(selection(job))

    assert release(job.fingerprint, canary=True) == 0

    assert Quarantine.objects.get().canary_job_id == ""


def test_content_that_crashes_again_while_its_jobs_still_follow_is_quarantined_anew(now, settings):
    settings.HEADGATE = {"CRASH_LIMIT": 1}
    _, others = sent(now)
    end(admit_one("w1"), Event.SUCCEED)
    assert sweep_quarantine(1, "default") == 1
    crashing = admit_one("w1")
    now.advance(milliseconds=LEASE)

    reclaim()
    assert sweep() == 0

    assert {state(job) for job in others} == {State.QUARANTINED}
    poison = Quarantine.objects.get()
    assert (poison.is_lifted, poison.canary_job_id, poison.crash_count) == (False, "", 1)
    assert (poison.sample_job_id, poison.created_at_ms) == (crashing.id, now.at_ms)
    with pytest.raises(Quarantined):
        sibling()
