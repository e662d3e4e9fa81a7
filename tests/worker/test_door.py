"""No admitted job is lost with the reply to its admission, even when the commit comes later than the failure."""

from __future__ import annotations

import os

import pytest
from django.db import OperationalError

from headgate_django.core.outcomes import Claim
from headgate_django.core.states import State
from headgate_django.gate.admit import Gate
from headgate_django.models import Job
from headgate_django.worker import door as module
from headgate_django.worker.door import Door
from tests.support.builders import queued
from tests.support.locks import held

pytestmark = pytest.mark.django_db(transaction=True)


class Unanswered(Gate):
    """The next admit of it breaks before its commit is confirmed."""

    breaks = True

    def admit(self, capacity: int) -> list[Claim]:
        if self.breaks:
            self.breaks = False
            raise OperationalError("server closed the connection unexpectedly")
        return super().admit(capacity)


@pytest.fixture
def heard() -> set[tuple[str, int]]:
    return set()


@pytest.fixture
def door(heard, monkeypatch) -> Door:
    """Of w1, whose last admit broke a moment ago."""
    monkeypatch.setattr(module, "UNSURE_SECONDS", 3600.0)
    door = Door(Unanswered("w1"), lambda: heard)
    with pytest.raises(OperationalError):
        door.admit(1)
    return door


def late_commit() -> Job:
    """What the broken admit had claimed appears only now."""
    job = queued()
    assert [claim.id for claim in Gate("w1").admit(1)] == [job.pk]
    return job


def test_a_commit_that_comes_after_the_first_look_is_found_by_a_later_one(door, caplog):
    assert door.admit(1) == []
    job = late_commit()

    [claim] = door.admit(1)

    assert (claim.id, claim.fence, claim.interruptions, claim.crash_attempt) == (job.pk, 2, 1, 0)
    assert "1 jobs are given back" in caplog.text


def test_what_was_heard_of_is_kept(door, heard):
    job = queued()
    [claim] = door.admit(1)
    heard.add(claim.run_id)

    assert door.admit(1) == []

    assert Job.objects.get(pk=job.pk).state == State.RUNNING


def test_after_a_while_it_is_sure(door):
    door._unsure_until = 0.0
    door.make_sure()
    job = late_commit()

    assert door.admit(1) == []

    assert Job.objects.get(pk=job.pk).state == State.RUNNING


def test_a_worker_that_ends_looks_once_more(door):
    job = late_commit()

    door.make_sure()

    assert Job.objects.get(pk=job.pk).state == State.AVAILABLE


@pytest.mark.skipif(os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="SQLite locks no rows")
def test_what_somebody_has_locked_holds_no_admission_up_and_is_given_back_when_it_is_free(door):
    job = late_commit()
    door._unsure_until = 0.0

    with held(lambda: Job.objects.select_for_update().get(pk=job.pk)):
        assert door.admit(1) == []

    [claim] = door.admit(1)
    assert (claim.id, claim.interruptions) == (job.pk, 1)
