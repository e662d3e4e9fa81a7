"""What the how-to pages recommend, done."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from headgate_django.core.states import State
from headgate_django.models import Job
from headgate_django.models.store import fetch
from tests.sample import jobs
from tests.support.backlog import Backlog, load
from tests.support.builders import in_state, queued
from tests.support.plans import watched

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"
on_postgresql = pytest.mark.skipif(
    os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="the scaler asks PostgreSQL"
)


def scaler_query() -> str:
    """The query that the page recommends for scaling."""
    [query] = re.findall(
        r"^```sql\n(.*?)^```$", (HOW_TO / "deploy.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    return query


def wanted() -> int:
    return fetch("default", scaler_query(), [])[0][0]


@pytest.mark.django_db(transaction=True)
def test_a_worker_can_run_inside_a_test_and_leaves_its_signals_alone():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    for value in range(20):
        jobs.ok.enqueue(value)
    jobs.asynchronous.enqueue()

    call_command("headgate_worker", burst=True, threads=2)

    assert set(Job.objects.values_list("state", flat=True)) == {"completed"}
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


@on_postgresql
@pytest.mark.django_db
def test_the_scaler_counts_what_waits_what_is_due_and_what_runs_in_its_queue():
    for state in (State.COMPLETED, State.ARCHIVED, State.RUNNING, State.PENDING, State.SCHEDULED, State.AVAILABLE):
        in_state(state, queue="imports")
    queued(queue="other")
    due = queued(queue="imports", delay_ms=1)
    Job.objects.filter(pk=due.pk).update(scheduled_at_ms=1)
    assert Job.objects.get(pk=due.pk).state == State.SCHEDULED

    assert wanted() == 3


@on_postgresql
@pytest.mark.django_db
def test_the_scaler_looks_at_a_bounded_number_of_rows_however_many_wait():
    load(Backlog(count=20_000, prefix="done", queue="imports", state=State.COMPLETED, payloads=False))
    load(Backlog(count=20_000, prefix="other", queue="other", payloads=False))
    load(Backlog(count=20_000, prefix="waiting", queue="imports", payloads=False))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE headgate_django_job")

    with transaction.atomic(), watched() as watch:
        found = wanted()

    assert found == 500
    assert watch.touched < 1_000
