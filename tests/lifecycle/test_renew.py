"""Renewal keeps the right to write, and tells a worker which runs it has lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.core.states import Event
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.cancel import cancel
from headgate_django.lifecycle.reclaim import reclaim
from headgate_django.lifecycle.renew import renew
from headgate_django.models import Job
from tests.support.builders import queued, running

pytestmark = pytest.mark.django_db

LEASE = 30_000


def expiry(claim: Claim) -> int | None:
    return Job.objects.values_list("lease_expires_at_ms", flat=True).get(pk=claim.id)


def test_a_renewed_lease_lasts_from_now(now):
    _, claim = running()
    now.advance(seconds=10)

    assert renew([claim], LEASE) == []

    assert expiry(claim) == now.at_ms + LEASE


def test_a_lease_renewed_in_time_is_never_taken_back(now):
    _, claim = running()

    for _ in range(20):
        now.advance(seconds=10)
        assert renew([claim], LEASE) == []
        assert reclaim() == 0


def test_an_expired_lease_that_nobody_took_back_is_renewed(now):
    _, claim = running()
    now.advance(seconds=31)

    assert renew([claim], LEASE) == []
    assert reclaim() == 0


@pytest.mark.parametrize("wrong", [{"fence": 0}, {"fence": 2}, {"lease_id": "other"}, {"id": "other"}])
def test_a_claim_that_does_not_hold_the_lease_renews_nothing(now, wrong):
    _, claim = running()
    before, forged = expiry(claim), replace(claim, **wrong)
    now.advance(seconds=1)

    assert renew([forged], LEASE) == [forged]
    assert expiry(claim) == before


def test_the_lost_ones_of_a_batch_are_named_and_the_others_renewed(now):
    for _ in range(4):
        queued()
    claims = Gate("w1").admit(4)
    cancel(Job.objects.filter(pk=claims[0].id))
    ack([(claims[2], Outcome(event=Event.SUCCEED))])
    now.advance(seconds=5)

    assert sorted(claim.id for claim in renew(claims, LEASE)) == sorted([claims[0].id, claims[2].id])

    assert [expiry(claim) for claim in claims] == [None, now.at_ms + LEASE, None, now.at_ms + LEASE]


def test_a_worker_that_holds_an_old_and_a_new_claim_of_one_job_has_lost_the_old_one(now):
    job, old = running()
    now.advance(seconds=31)
    reclaim()
    now.advance(seconds=60)
    [new] = Gate("w1", queues={job.queue: 1}).admit(1)

    assert renew([new, old], LEASE) == [old]


def test_renewal_changes_nothing_but_the_expiry(now):
    job, claim = running()
    before = Job.objects.filter(pk=job.pk).values().get()
    now.advance(seconds=5)

    renew([claim], LEASE)

    after = Job.objects.filter(pk=job.pk).values().get()
    assert {name for name in after if after[name] != before[name]} == {"lease_expires_at_ms"}


def test_hundreds_of_leases_are_renewed_in_few_statements(now, django_assert_max_num_queries):
    for _ in range(300):
        queued()
    claims = Gate("w1").admit(300)
    now.advance(seconds=5)

    with django_assert_max_num_queries(2):
        assert renew(claims, LEASE) == []

    assert set(Job.objects.values_list("lease_expires_at_ms", flat=True)) == {now.at_ms + LEASE}


def test_renewing_nothing_is_no_statement(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert renew([], LEASE) == []
