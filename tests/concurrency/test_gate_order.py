"""The gate locks policies before jobs, and waits only while it holds neither: so it is part of no deadlock."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from django.db import transaction

from headgate_django.core.states import State
from headgate_django.core.walk import MAX_STREAMS
from headgate_django.gate.admit import Gate
from headgate_django.models import ConcurrencyLimit, Job, RateClass
from headgate_django.models.store import limited
from tests.support.backlog import Backlog, load
from tests.support.builders import queued
from tests.support.locks import Running, held, wait_until_blocked

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="SQLite has no locks on rows"),
]


def lock_class(name: str) -> Callable[[], object]:
    return lambda: RateClass.objects.select_for_update().get(pk=name)


def lock_limit(name: str) -> Callable[[], object]:
    return lambda: ConcurrencyLimit.objects.select_for_update().get(pk=name)


def two_windows(*, first: str, second: str) -> None:
    """More streams of class ``first`` than an admit looks at at once, and behind them one of class ``second``."""
    load(Backlog(count=MAX_STREAMS, partitions=MAX_STREAMS, partition="a", rate_class=first))
    load(Backlog(count=1, prefix="z", partition="z", rate_class=second))


@pytest.mark.parametrize("scope", ["rate class", "concurrency limit"])
def test_an_admit_that_holds_policies_waits_for_no_others(now, scope: str):
    RateClass.objects.create(name="closed", paused=True)
    RateClass.objects.create(name="busy")
    ConcurrencyLimit.objects.create(name="busy", scope="rate_class", key="busy", max_concurrent=9)
    two_windows(first="closed", second="busy")
    lock = lock_class("busy") if scope == "rate class" else lock_limit("busy")

    with held(lock), limited("default", lock_ms=2_000, statement_ms=60_000):
        assert Gate("w1").admit(10) == []

    assert [claim.rate_class for claim in Gate("w1").admit(10)] == ["busy"]


@pytest.mark.parametrize("scope", ["rate class", "concurrency limit"])
def test_an_admit_that_waits_for_a_policy_holds_no_job(now, scope: str):
    RateClass.objects.create(name="busy")
    ConcurrencyLimit.objects.create(name="busy", scope="rate_class", key="busy", max_concurrent=9)
    queued(rate_class="busy")
    due = queued(queue="other", delay_ms=1_000)
    now.advance(seconds=1)

    with held(lock_class("busy") if scope == "rate class" else lock_limit("busy")) as commit:
        admitting = Running(lambda: Gate("w1").admit(10))
        wait_until_blocked(admitting)

        with transaction.atomic():
            assert Job.objects.select_for_update(skip_locked=True).filter(pk=due.pk).exists()
        commit()

    assert len(admitting.result()) == 1
    assert Job.objects.get(pk=due.pk).state == State.AVAILABLE
