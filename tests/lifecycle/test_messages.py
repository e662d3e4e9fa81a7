"""A worker is told to look at its leases at once; a message that fails or is lost breaks nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection, transaction

from headgate_django.core.states import State
from headgate_django.lifecycle.cancel import cancel
from headgate_django.lifecycle.wakeup import notify_workers
from headgate_django.models import ConcurrencyLimit, Job
from headgate_django.models.messages import AT_ONCE, channel_of
from tests.support.builders import in_state, queued, running
from tests.support.locks import Running, held, wait_until_blocked

pytestmark = pytest.mark.django_db(transaction=True)
postgres_only = pytest.mark.skipif(
    os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="SQLite's workers look at their next renewal"
)


@pytest.fixture
def told() -> Iterator[Callable[[], list[str]]]:
    """Which of the workers w1 to w3 were told to look, in order, since the last call."""
    parameters = connection.get_connection_params()
    where = {name: parameters[name] for name in ("dbname", "user", "host", "port") if parameters.get(name)}
    names = {channel_of(name): name for name in ("w1", "w2", "w3")}
    with psycopg.connect(**where, autocommit=True) as other:
        for channel in names:
            other.execute(f"LISTEN {channel}")
        yield lambda: sorted(names[notice.channel] for notice in other.notifies(timeout=0.2))


def test_where_there_is_no_notify_nothing_happens(vendor):
    with transaction.atomic():
        notify_workers(["w1"], "default")

    assert connection.is_usable()


def test_the_channel_of_the_longest_id_is_a_short_name():
    longest = channel_of(chr(0x1F300) * 255)

    assert len(longest.encode()) < 63
    assert longest != channel_of(chr(0x1F300) * 254)


@postgres_only
def test_workers_are_told_after_the_commit_and_once_each(told):
    with transaction.atomic():
        notify_workers(["w1", "", "w2", "w1"], "default")
        assert told() == []

    assert told() == ["w1", "w2"]


@postgres_only
def test_what_is_rolled_back_tells_nobody(told):
    with transaction.atomic():
        notify_workers(["w1"], "default")
        transaction.set_rollback(True)

    assert told() == []


@postgres_only
def test_a_whole_fleet_is_told_in_a_few_statements(told):
    notify_workers(["w3", *(f"other-{number}" for number in range(AT_ONCE + 1))], "default")

    assert told() == ["w3"]


@postgres_only
def test_a_message_that_fails_never_reaches_the_caller(caplog):
    def refuse_notify(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if "pg_notify" in sql:
            raise DatabaseError("the server refuses to notify")
        return execute(sql, *rest)

    job, _ = running("w1")
    with connection.execute_wrapper(refuse_notify):
        assert cancel(Job.objects.filter(pk=job.pk)) == 1

    job.refresh_from_db()
    assert job.state == State.CANCELLED
    assert "refuses to notify" in caplog.text


@postgres_only
def test_cancelling_tells_the_workers_that_hold_the_jobs_and_no_others(told):
    running("w1", queue="a")
    running("w2", queue="b")
    running("w3", queue="c")
    waiting = in_state(State.RETRYABLE)  # has the id of the worker that ran it last

    assert cancel(Job.objects.exclude(queue="c")) == 3

    waiting.refresh_from_db()
    assert waiting.worker_id
    assert told() == ["w1", "w2"]


@postgres_only
def test_the_holder_is_read_under_the_lock(told):
    job = queued(queue="late")

    def admitted_by_w2() -> None:
        running("w2", queue="late")

    with held(admitted_by_w2) as commit:
        cancelling = Running(lambda: cancel(Job.objects.filter(pk=job.pk)))
        wait_until_blocked(cancelling)
        commit()
        assert cancelling.result() == 1

    assert told() == ["w2"]


@postgres_only
def test_a_run_that_makes_room_for_a_newer_job_is_told(told):
    ConcurrencyLimit.objects.create(
        name="one", scope="queue", key="q", max_concurrent=1, on_saturated="cancel_running"
    )
    oldest, _ = running("w1", queue="q")

    running("w2", queue="q")

    oldest.refresh_from_db()
    assert oldest.state == State.CANCELLED
    assert told() == ["w1"]
