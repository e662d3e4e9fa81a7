"""A worker is woken by what it can use: work when it is free, messages to it always."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from headgate_django.lifecycle import wakeup
from headgate_django.lifecycle.wakeup import Heard, Listener, notify_workers
from headgate_django.models.store import fetch
from headgate_django.worker.wakeup import Wakeup
from tests.support.builders import queued
from tests.support.locks import Running

pytestmark = pytest.mark.django_db(transaction=True)
postgres_only = pytest.mark.skipif(
    os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="only PostgreSQL has NOTIFY"
)
sqlite_only = pytest.mark.skipif(
    os.environ.get("HEADGATE_TEST_DB") == "postgres", reason="only SQLite's file is watched"
)

NOTHING, WORK, LOOK = Heard(work=False, look=False), Heard(work=True, look=False), Heard(work=False, look=True)
LONG = 60.0
"""A wait that only what is tested can end."""


@pytest.fixture
def wakes() -> Iterator[Wakeup]:
    """The wakeup of worker w1, which has already heard what a new connection is told."""
    wakeup._last_sent.clear()
    connection.ensure_connection()
    waker = Wakeup(Listener("default", "w1"))
    waker.wait(0, for_work=True)
    waker.wait(0, for_work=True)
    yield waker
    waker.close()


def elsewhere(*calls) -> None:
    """On a connection of its own, as another process would."""
    for call in calls:
        Running(call).result()


def test_a_free_worker_is_woken_by_new_work(wakes):
    elsewhere(queued)

    assert wakes.wait(LONG, for_work=True) == WORK
    assert wakes.wait(0, for_work=True) == NOTHING


def test_a_signal_or_a_result_ends_any_wait(wakes):
    wakes.set()
    assert wakes.wait(LONG, for_work=True) == NOTHING
    wakes.set()
    assert wakes.wait(LONG, for_work=False) == NOTHING
    wakes.set()
    wakes.pause(LONG)


@postgres_only
def test_no_statement_waits_long_for_a_lock_whether_its_session_listens_or_is_a_new_one(wakes):
    def limit() -> list[tuple[str]]:
        return fetch("default", "SHOW lock_timeout")

    with wakes.limited():
        assert limit() == [("2s",)]
        connection.close()
        assert limit() == [("2s",)]

    assert limit() == [("0",)]


def test_a_pause_touches_no_database(wakes):
    connection.close()

    wakes.pause(0)

    assert connection.connection is None


@postgres_only
@pytest.mark.parametrize("free", [True, False])
def test_a_message_to_the_worker_wakes_it_busy_or_free(wakes, free):
    elsewhere(lambda: notify_workers(["w1"], "default"))

    assert wakes.wait(LONG, for_work=free) == LOOK


@postgres_only
def test_a_message_to_another_worker_is_not_heard(wakes):
    elsewhere(lambda: notify_workers(["w2"], "default"))

    assert wakes.wait(0.2, for_work=True) == NOTHING


@postgres_only
def test_a_busy_worker_sleeps_through_new_work_and_remembers_it(wakes):
    elsewhere(queued, lambda: notify_workers(["w1"], "default"))

    assert wakes.wait(LONG, for_work=False) == LOOK
    assert wakes.wait(0, for_work=False) == NOTHING
    assert wakes.wait(LONG, for_work=True) == WORK


@postgres_only
def test_what_arrives_during_another_statement_is_heard(wakes):
    elsewhere(lambda: notify_workers(["w1"], "default"))
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(0.2)")

    assert wakes.wait(LONG, for_work=False) == LOOK


@postgres_only
def test_a_lost_connection_is_an_error_of_the_database_and_the_next_one_listens_and_looks_at_once(wakes):
    lost = connection.connection.info.backend_pid
    elsewhere(lambda: end_backend(lost))

    with pytest.raises(OperationalError):
        wakes.wait(LONG, for_work=False)
    connection.close()

    assert wakes.wait(LONG, for_work=True) == Heard(work=True, look=True)
    assert wakes.wait(0, for_work=True) == NOTHING
    elsewhere(lambda: notify_workers(["w1"], "default"))
    assert wakes.wait(LONG, for_work=False) == LOOK


def end_backend(pid: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
        assert cursor.fetchone() == (True,)


@postgres_only
@pytest.mark.parametrize(("listen", "mode"), [("auto", "listen"), (True, "listen"), (False, "poll")])
def test_the_setting_decides_whether_a_direct_connection_listens(settings, listen, mode):
    settings.HEADGATE = {"LISTEN": listen}
    waker = Wakeup(Listener("default", "w1"))

    waker.wait(0, for_work=True)
    elsewhere(lambda: notify_workers(["w1"], "default"))

    assert waker.mode == mode
    assert waker.wait(LONG if mode == "listen" else 0.2, for_work=True).look == (mode == "listen")
    connection.close()
    waker.close()


@postgres_only
def test_idle_waiting_is_no_statement(wakes):
    with CaptureQueriesContext(connection) as statements:
        for _ in range(10):
            wakes.wait(0.001, for_work=True)

    assert len(statements) == 0


@sqlite_only
def test_a_busy_worker_does_not_look_at_the_file(wakes):
    elsewhere(queued)

    with CaptureQueriesContext(connection) as statements:
        assert wakes.wait(0.1, for_work=False) == NOTHING
    assert len(statements) == 0
    assert wakes.mode == "file"
    assert wakes.wait(LONG, for_work=True) == WORK


def test_a_thousand_open_files_do_not_stop_a_worker(wakes):
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        connection.close()
        late = Wakeup(Listener("default", "w1"))
        late.wait(0, for_work=True)
        late.set()
        assert late.wait(LONG, for_work=True) == NOTHING
        late.close()
    finally:
        connection.close()
        for number in opened:
            os.close(number)
