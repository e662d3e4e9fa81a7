"""A claim acks under its lease and fence, or writes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headgate_django.core.outcomes import RUN_EVENTS, Claim, Outcome
from headgate_django.core.states import Event, State
from headgate_django.exceptions import LeaseLost
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack, ack_one
from headgate_django.lifecycle.cancel import cancel
from headgate_django.lifecycle.reclaim import reclaim
from headgate_django.models import Attempt, Job
from tests.support.builders import BOOM, queued, running

pytestmark = pytest.mark.django_db

SUCCESS = Outcome(event=Event.SUCCEED)
SKIP = Outcome(event=Event.SKIP, failure=BOOM)


def row(job: Job) -> dict[str, Any]:
    return Job.objects.filter(pk=job.pk).values().get()


def claims(count: int) -> list[Claim]:
    for _ in range(count):
        queued(queue="builders")
    return Gate("w1", queues={"builders": 1}).admit(count)


WRONG = {
    "fence too low": {"fence": 0},
    "fence too high": {"fence": 2},
    "other lease": {"lease_id": "somebody else's"},
    "no lease": {"lease_id": ""},
    "other job": {"id": "unknown"},
}


@pytest.mark.parametrize("event", sorted(RUN_EVENTS))
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_claim_that_does_not_hold_the_lease_writes_nothing(now, event, wrong):
    job, claim = running(retention_ms=0)
    before, forged = row(job), replace(claim, **wrong)

    assert ack([(forged, Outcome(event=event, failure=BOOM))]) == [forged]

    assert row(job) == before
    assert not Attempt.objects.exists()


@pytest.mark.parametrize("event", sorted(RUN_EVENTS))
def test_the_second_ack_of_a_claim_is_refused(now, event):
    job, claim = running()
    ack([(claim, SUCCESS)])
    before = row(job)

    assert ack([(claim, Outcome(event=event, failure=BOOM))]) == [claim]

    assert row(job) == before


def test_an_ack_after_the_reclaim_is_refused_even_while_the_job_runs_again(now):
    job, claim = running()
    now.advance(seconds=31)
    reclaim()
    now.advance(seconds=60)
    [second] = Gate("w2", queues={job.queue: 1}).admit(1)
    before = row(job)

    assert ack([(claim, SUCCESS)]) == [claim]
    assert row(job) == before

    assert ack([(second, SUCCESS)]) == []
    assert (row(job)["state"], row(job)["crash_attempt"], row(job)["attempt"]) == (State.COMPLETED, 1, 0)


def test_an_expired_lease_that_nobody_took_back_still_acks(now):
    job, claim = running()
    now.advance(days=1)

    assert ack([(claim, SUCCESS)]) == []
    assert row(job)["state"] == State.COMPLETED


def test_one_lost_lease_in_a_batch_stops_none_of_the_others(now):
    batch = claims(5)
    cancel(Job.objects.filter(pk=batch[2].id))

    refused = ack([(claim, SUCCESS if index % 2 else SKIP) for index, claim in enumerate(batch)])

    assert refused == [batch[2]]
    states = dict(Job.objects.values_list("pk", "state"))
    assert [states[claim.id] for claim in batch] == ["archived", "completed", "cancelled", "completed", "archived"]


def test_an_old_and_a_new_claim_of_one_job_in_one_batch_are_told_apart(now):
    job, old = running()
    now.advance(seconds=31)
    reclaim()
    now.advance(seconds=60)
    [new] = Gate("w1", queues={job.queue: 1}).admit(1)
    [other] = claims(1)

    refused = ack([(old, SKIP), (new, SUCCESS), (other, SKIP)])

    assert refused == [old]
    assert row(job)["state"] == State.COMPLETED
    assert [attempt.number for attempt in job.attempts.all()] == [1]  # the lost lease; nothing of the late ack


def test_one_claim_twice_in_a_batch_ends_once_by_its_first_outcome(now):
    job, claim = running()

    assert ack([(claim, SKIP), (claim, Outcome(event=Event.RETRY, failure=BOOM))]) == []

    assert (row(job)["state"], row(job)["attempt"], job.attempts.count()) == (State.ARCHIVED, 0, 1)


@pytest.mark.parametrize("event", sorted(set(Event) - RUN_EVENTS))
def test_what_no_worker_may_say_is_refused_before_any_statement(now, django_assert_num_queries, event):
    _, claim = running()

    with django_assert_num_queries(0), pytest.raises(ValueError, match=f"{event} is not acked by a worker"):
        ack([(claim, SUCCESS), (claim, Outcome(event=event))])


def test_ack_one_raises_when_the_lease_is_lost(now):
    job, claim = running()
    ack_one(claim, SUCCESS)

    with pytest.raises(LeaseLost, match=f"job {job.pk}: cannot succeed from running"):
        ack_one(claim, SUCCESS)
