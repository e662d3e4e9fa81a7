"""Workers hear of new work after commit; a notification that fails or is lost breaks nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection, transaction

from headgate_django.core.states import State
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle import wakeup
from headgate_django.lifecycle.cancel import cancel
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.lifecycle.promote import promote
from headgate_django.lifecycle.redrive import redrive
from headgate_django.lifecycle.release import release
from headgate_django.models import Job
from tests.support.builders import EnvelopeFactory, in_state, queued

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="SQLite's workers watch the file instead"
    ),
]


@pytest.fixture(autouse=True)
def unhurried() -> None:
    """No notification of an earlier test holds back one of this."""
    wakeup._last_sent.clear()


@pytest.fixture
def heard() -> Iterator[Callable[[], list[str]]]:
    """What another connection hears, call by call."""
    with psycopg.connect(**listening(), autocommit=True) as other:
        other.execute(f"LISTEN {wakeup.CHANNEL}")
        yield lambda: [notice.payload for notice in other.notifies(timeout=0.2, stop_after=None)]


def listening() -> dict[str, Any]:
    parameters = connection.get_connection_params()
    return {name: parameters[name] for name in ("dbname", "user", "host", "port") if parameters.get(name)}


def test_a_committed_job_is_heard_of_and_a_rolled_back_one_is_not(heard):
    with transaction.atomic():
        queued(queue="lost")
        transaction.set_rollback(True)
    with transaction.atomic():
        queued(queue="kept")
        assert heard() == []

    assert heard() == ["kept"]


def test_a_batch_is_one_notification_for_each_queue(heard):
    enqueue([EnvelopeFactory(queue=f"q{number % 3}") for number in range(300)])

    assert sorted(heard()) == ["q0", "q1", "q2"]


def test_a_queue_is_not_announced_again_at_once(heard):
    for _ in range(20):
        queued(queue="busy")

    assert 1 <= len(heard()) < 20


def test_what_cannot_run_yet_wakes_nobody(heard):
    queued(delay_ms=60_000)
    queued(pending=True)

    assert heard() == []


@pytest.mark.parametrize(
    ("state", "verb"),
    [
        (State.SCHEDULED, lambda job: promote(Job.objects.filter(pk=job.pk))),
        (State.ARCHIVED, lambda job: redrive(Job.objects.filter(pk=job.pk))),
        (State.QUARANTINED, lambda job: release(job.fingerprint)),
    ],
)
def test_what_an_operator_makes_available_wakes_workers(heard, state, verb):
    job = in_state(state, queue="operated")
    heard()
    wakeup._last_sent.clear()

    verb(job)

    assert heard() == ["operated"]


def test_cancelling_wakes_nobody(heard):
    job = queued()
    heard()
    wakeup._last_sent.clear()

    cancel(Job.objects.filter(pk=job.pk))

    assert heard() == []


def test_the_longest_queue_name_fits_into_a_notification(heard):
    name = "".join(chr(0x1F300 + number) for number in range(255))

    job = queued(queue=name)

    assert heard() == [name[:64]]
    assert [claim.id for claim in Gate("w1", queues={name: 1}).admit(1)] == [job.pk]


def test_a_notification_that_fails_never_reaches_the_caller(caplog):
    def refuse_notify(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if "pg_notify" in sql:
            raise DatabaseError("the server refuses to notify")
        return execute(sql, *rest)

    later = []
    with connection.execute_wrapper(refuse_notify), transaction.atomic():
        job = queued()
        transaction.on_commit(lambda: later.append("ran"))

    assert Job.objects.filter(pk=job.pk).exists()
    assert later == ["ran"]
    assert "refuses to notify" in caplog.text


def test_the_memory_of_what_was_announced_is_bounded():
    for number in range(wakeup.MAX_REMEMBERED + 10):
        wakeup._last_sent["default", f"q{number}"] = 0.0
    queued(queue="one more")

    assert len(wakeup._last_sent) <= wakeup.MAX_REMEMBERED
