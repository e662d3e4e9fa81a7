"""Beside other writers: verbs wait for them, and say so when they waited too long."""

from __future__ import annotations

import pytest
from django.db import connection

from headgate_django.control import selection
from headgate_django.control.cancel import cancel
from headgate_django.control.redrive import redrive
from headgate_django.control.report import BUSY
from headgate_django.core.states import State
from headgate_django.models import Job, store
from tests.support.builders import in_state, queued
from tests.support.locks import Running, held, together, wait_until_blocked

pytestmark = pytest.mark.django_db(transaction=True)


def be_impatient():
    """This connection gives up waiting for a lock at once."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET lock_timeout = 50")
        else:
            cursor.execute("PRAGMA busy_timeout = 50")


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(store, "LOCK_RETRIES", 2)
    be_impatient()
    yield
    connection.close()


def lock(job):
    return lambda: Job.objects.filter(pk=job.pk).update(priority=1)


def test_what_another_writer_holds_too_long_is_refused_and_can_be_asked_for_again(impatient):
    job = queued()

    with held(lock(job)):
        while_held = cancel([job.pk], actor=None)
    again = cancel([job.pk], actor=None)

    assert (while_held.done, while_held.refused) == (0, {BUSY: 1})
    assert again.done == 1


def test_what_was_done_before_stays_done(impatient, monkeypatch, vendor):
    monkeypatch.setattr(selection, "BATCH", 1)
    jobs = [queued(id=name) for name in "abc"]

    with held(lock(jobs[1])):
        report = cancel([job.pk for job in jobs], actor=None)

    # SQLite has one lock for the whole file, so nothing can be done beside another writer.
    done = 1 if vendor == "postgresql" else 0
    assert (report.done, report.refused) == (done, {BUSY: 3 - done})
    assert Job.objects.in_state(State.CANCELLED).count() == done


def test_a_verb_waits_for_a_run_that_is_being_written_and_then_sees_what_it_wrote(vendor):
    job = in_state(State.ARCHIVED)

    with held(lambda: redrive([job.pk], actor=None)) as commit:
        second = Running(lambda: redrive([job.pk], actor=None))
        if vendor == "postgresql":
            wait_until_blocked(second)
        commit()
        report = second.result()

    assert (report.done, report.skipped) == (0, {State.AVAILABLE: 1})


def test_two_operators_in_opposite_orders_do_each_job_once():
    ids = [in_state(State.ARCHIVED).pk for _ in range(20)]

    first, second = together(
        lambda: redrive(ids, actor=None, extra_attempts=1),
        lambda: redrive(ids[::-1], actor=None, extra_attempts=1),
    )

    assert first.done + second.done == 20
    assert set(Job.objects.values_list("max_attempts", flat=True)) == {26}
