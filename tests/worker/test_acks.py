"""Ended runs on their way into the database: what somebody has locked holds nothing else up."""

from __future__ import annotations

import os

import pytest

from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import Event, State
from headgate_django.models import Job, RateClass
from headgate_django.models.store import limited
from headgate_django.worker import acks as module
from headgate_django.worker.acks import Acks
from headgate_django.worker.run import Run
from headgate_django.worker.trouble import Trouble
from tests.support.builders import BOOM, running
from tests.support.locks import Running, held
from tests.support.processes import wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="SQLite locks no rows"),
]

SUCCESS = Outcome(event=Event.SUCCEED)
RATE_LIMITED = Outcome(event=Event.RATE_LIMIT, delay_ms=0, hold_class_ms=1_000)


def ended(acks: Acks, outcome: Outcome = SUCCESS, **options: str) -> Job:
    job, claim = running(**options)
    acks.add(Run(claim), outcome)
    return job


def state(job: Job) -> str:
    return Job.objects.values_list("state", flat=True).get(pk=job.pk)


def test_what_changes_a_locked_rate_class_waits_alone(monkeypatch):
    monkeypatch.setattr(module, "REPORT_SECONDS", 0.0)
    RateClass.objects.create(name="api")
    acks = Acks("default")
    reporting = ended(acks, RATE_LIMITED, rate_class="api")
    plain = ended(acks)

    with held(lambda: RateClass.objects.select_for_update().get()), limited("default", lock_ms=20):
        assert acks.flush()
        assert (state(reporting), state(plain)) == (State.RUNNING, State.COMPLETED)
        assert acks.flush()
        assert len(acks) == 1
    assert acks.flush()

    assert len(acks) == 0
    assert state(reporting) != State.RUNNING
    assert RateClass.objects.get().held_until_ms > 0


@pytest.mark.parametrize("outcome", [SUCCESS, RATE_LIMITED], ids=["job", "rate class"])
def test_the_last_flush_waits_for_a_lock_that_is_soon_released(outcome: Outcome, monkeypatch):
    monkeypatch.setattr(module, "LAST_SECONDS", 60.0)
    RateClass.objects.create(name="api")
    acks = Acks("default")
    locked, free = ended(acks, outcome, rate_class="api"), ended(acks)

    def insist() -> None:
        with limited("default", lock_ms=20):
            acks.insist(Trouble("default"))

    def lock() -> None:
        Job.objects.select_for_update().get(pk=locked.pk)
        RateClass.objects.select_for_update().get()

    with held(lock) as commit:
        insisting = Running(insist)
        wait_until(lambda: state(free) == State.COMPLETED, "the other one is written")
        assert not insisting.done
        commit()
    insisting.result()

    assert len(acks) == 0
    assert state(locked) != State.RUNNING


def test_the_last_flush_ends_although_a_lock_is_not_released(monkeypatch):
    monkeypatch.setattr(module, "LAST_SECONDS", 0.1)
    acks = Acks("default")
    locked = ended(acks)

    with held(lambda: Job.objects.select_for_update().get(pk=locked.pk)), limited("default", lock_ms=20):
        acks.insist(Trouble("default"))

    assert len(acks) == 1


def test_what_is_written_before_a_crash_that_is_locked_is_not_written_again(caplog):
    acks = Acks("default")
    plain = ended(acks)
    job, claim = running()
    acks.add(Run(claim), Outcome(event=Event.LOSE_LEASE, failure=BOOM))

    with held(lambda: Job.objects.select_for_update().get(pk=job.pk)), limited("default", lock_ms=20):
        assert acks.flush()

    assert (state(plain), len(acks)) == (State.COMPLETED, 1)
    assert "lease was lost" not in caplog.text
