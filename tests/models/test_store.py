"""Write transactions: SQLite's lock is taken at their start, and contention is waited out."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext
from psycopg import errors

from headgate_django.core.states import Event
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.models import Job, Queue
from headgate_django.models.store import (
    LOCK_RETRIES,
    alias,
    fetch,
    is_contention,
    literals,
    marks,
    retrying_locked,
    write_transaction,
)
from tests.support.builders import EnvelopeFactory, queued

committing = pytest.mark.django_db(transaction=True)
sqlite_only = pytest.mark.skipif(
    os.environ.get("HEADGATE_TEST_DB") == "postgres", reason="PostgreSQL locks rows, not the file"
)


class OtherAlias:
    """A router that keeps the queue's tables apart."""

    def db_for_write(self, model: type, **hints: object) -> str | None:
        return "elsewhere" if model is Job else None


@pytest.fixture
def project_mode() -> Iterator[None]:
    """A project that has chosen SQLite's transaction mode."""
    options = connection.settings_dict["OPTIONS"]
    connection.close()
    options["transaction_mode"] = "EXCLUSIVE"
    yield
    connection.close()
    del options["transaction_mode"]


def locked_by_us(name: str) -> bool:
    other = sqlite3.connect(name, timeout=0)
    try:
        other.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        return "locked" in str(error)
    finally:
        other.close()
    return False


@sqlite_only
@committing
@pytest.mark.parametrize("fresh", [False, True], ids=["open connection", "fresh connection"])
def test_sqlite_is_locked_for_writing_from_the_first_moment(fresh):
    if fresh:
        connection.close()

    with write_transaction("default"):
        assert locked_by_us(connection.settings_dict["NAME"])

    assert not locked_by_us(connection.settings_dict["NAME"])


@sqlite_only
@committing
@pytest.mark.parametrize("fresh", [False, True], ids=["open connection", "fresh connection"])
def test_the_mode_that_the_project_chose_is_kept(project_mode, fresh):
    if not fresh:
        connection.ensure_connection()

    with write_transaction("default"):
        assert connection.transaction_mode == "EXCLUSIVE"  # for what the caller begins inside

    assert connection.transaction_mode == "EXCLUSIVE"


def fail_in_a_write_transaction() -> None:
    with write_transaction("default"):
        Queue.objects.create(name="lost")
        raise ZeroDivisionError


@committing
def test_a_write_transaction_commits_or_rolls_back_as_a_whole():
    with write_transaction("default"):
        Queue.objects.create(name="kept")
    with pytest.raises(ZeroDivisionError):
        fail_in_a_write_transaction()

    assert [queue.name for queue in Queue.objects.all()] == ["kept"]


@committing
def test_inside_the_callers_transaction_it_is_a_savepoint():
    with transaction.atomic():
        Queue.objects.create(name="kept")
        with pytest.raises(ZeroDivisionError):
            fail_in_a_write_transaction()
        Queue.objects.create(name="also kept")

    assert [queue.name for queue in Queue.objects.all()] == ["also kept", "kept"]


def caused(message: str, cause: Exception) -> OperationalError:
    error = OperationalError(message)
    error.__cause__ = cause
    return error


def contention() -> OperationalError:
    return caused("database is locked", sqlite3.OperationalError("database is locked"))


@pytest.mark.parametrize("code", ["40001", "40P01", "55P03"])
def test_serialization_deadlock_and_lock_timeout_are_contention(code):
    assert is_contention(caused("whatever the server says, in its language", errors.lookup(code)()))


@pytest.mark.parametrize("code", ["57P01", "23505", "08006"])
def test_other_trouble_is_no_contention(code):
    assert not is_contention(caused("server closed the connection unexpectedly", errors.lookup(code)()))
    assert not is_contention(caused("disk I/O error", sqlite3.OperationalError("disk I/O error")))


@committing
def test_contention_is_tried_again_and_then_given_up():
    tries = []

    def never() -> None:
        tries.append(1)
        raise contention()

    with pytest.raises(OperationalError):
        retrying_locked("default", never)
    assert len(tries) == LOCK_RETRIES

    outcomes = iter([contention(), contention(), None])

    def third_time_lucky() -> str:
        error = next(outcomes)
        if error:
            raise error
        return "done"

    assert retrying_locked("default", third_time_lucky) == "done"


@committing
def test_other_errors_and_errors_in_the_callers_transaction_are_not_repeated():
    tries = []

    def fails(error: Exception) -> None:
        tries.append(1)
        raise error

    with pytest.raises(OperationalError, match="gone"):
        retrying_locked("default", lambda: fails(OperationalError("gone")))
    with pytest.raises(ValueError, match="mine"):
        retrying_locked("default", lambda: fails(ValueError("mine")))
    with transaction.atomic(), pytest.raises(OperationalError, match="locked"):
        retrying_locked("default", lambda: fails(contention()))

    assert len(tries) == 3


@pytest.mark.django_db
def test_the_queue_lives_where_the_setting_or_the_routers_say(settings):
    assert alias() == "default"
    settings.DATABASE_ROUTERS = [OtherAlias()]
    assert alias() == "elsewhere"
    settings.HEADGATE = {"DATABASE": "default"}
    assert alias() == "default"
    assert queued()._state.db == "default"


@pytest.mark.django_db
def test_literals_and_marks_are_sql():
    assert literals("a", "b") == "'a', 'b'"
    assert marks(2) == "%s, %s"
    assert marks(2, 2) == "(%s, %s), (%s, %s)"
    assert fetch("default", f"SELECT 1 WHERE 'a' IN ({literals('a', 'b')})") == [(1,)]


@committing
def test_a_verb_over_thousands_of_jobs_meets_no_limit_on_parameters(now):
    enqueue([EnvelopeFactory() for _ in range(1_000)])

    with CaptureQueriesContext(connection) as queries:
        assert Job.objects.transition(Event.CANCEL, now_ms=now.at_ms) == 1_000

    assert max(query["sql"].count("'0") for query in queries) <= 500
