"""Bounded counts of what waits where."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from headgate_django.control import backlog as module
from headgate_django.control.backlog import COUNTED, Count, Siblings, backlogs, queues_with_work, siblings
from headgate_django.core.states import State
from headgate_django.models import Job
from tests.support.backlog import Backlog, load
from tests.support.builders import in_state, quarantined, queued
from tests.support.plans import watched

pytestmark = pytest.mark.django_db


def test_each_queue_is_counted_by_state(now):
    for state in reversed(COUNTED):
        in_state(state, queue="mail")
    queued(queue="other")

    found = backlogs(["mail", "other", "empty"], "default")

    assert found["mail"].counts == dict.fromkeys(COUNTED, Count(1))
    assert {state: count.number for state, count in found["other"].counts.items() if count.number} == {
        State.AVAILABLE: 1
    }
    assert found["empty"].oldest_ms is None


def test_the_oldest_available_job_tells_how_long_it_has_waited(now):
    queued(queue="mail", priority=-5)
    now.advance(seconds=7)
    queued(queue="mail", priority=9)

    assert backlogs(["mail"], "default")["mail"].oldest_ms == 7_000


def test_counts_stop_at_their_bound(now, monkeypatch):
    monkeypatch.setattr(module, "MAX_COUNT", 10)
    load(Backlog(count=11, queue="mail", payloads=False))
    load(Backlog(count=11, prefix="d", queue="other", state=State.ARCHIVED, payloads=False))

    found = backlogs(["mail", "other"], "default")

    assert str(found["mail"].counts[State.AVAILABLE]) == "10+"
    assert str(found["other"].counts[State.ARCHIVED]) == "10+"
    assert str(Count(10_000, True)) == "10,000+"


def test_the_number_of_statements_does_not_depend_on_the_number_of_queues(now):
    load(Backlog(count=40, queue="q", queues=20, payloads=False))
    names = queues_with_work("default")

    with CaptureQueriesContext(connection) as few:
        backlogs(names[:1], "default")
    with CaptureQueriesContext(connection) as many:
        backlogs(names, "default")

    assert len(names) == 20
    assert len(few) == len(many) == 5


def test_a_deep_queue_is_not_scanned(now):
    load(Backlog(count=30_000, queue="old", payloads=False))
    load(Backlog(count=30_000, prefix="c", state=State.COMPLETED, payloads=False))

    with watched() as watch:
        queues_with_work("default")
        backlogs(["old"], "default")

    for statement in watch.statements:
        assert statement.rows <= 2 * module.MAX_COUNT + 10, statement.plan
        assert statement.indexes, statement.plan


@pytest.mark.parametrize("analysed", [False, True])
def test_a_queue_that_is_nearly_the_whole_table_is_not_scanned_either(now, analysed):
    load(Backlog(count=30_000, queue="only", payloads=False))
    if analysed:
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")

    with watched() as watch:
        found = queues_with_work("default")

    assert found == ["only"]
    assert watch.touched < 10_000
    assert all(statement.indexes == {"headgate_job_ready"} for statement in watch.statements)


def test_siblings_are_the_jobs_of_the_same_content(now):
    job = quarantined(arguments={"value": "a"})
    quarantined(arguments={"value": "b"})
    waiting = queued()
    Job.objects.filter(pk=waiting.pk).update(fingerprint=job.fingerprint)

    found = siblings([job.fingerprint, "none"], "default")

    assert found[job.fingerprint] == Siblings(waiting=Count(1), quarantined=Count(1))
    assert found["none"] == Siblings(waiting=Count(0), quarantined=Count(0))
