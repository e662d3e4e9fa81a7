"""A worker's own statements fail: it says so once, waits, closes what is broken, and goes on."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import DatabaseError, connection

from headgate_django.models import Queue
from headgate_django.models.store import execute, fetch, is_connection_trouble, limited
from headgate_django.worker.trouble import LONGEST_PAUSE, Trouble
from tests.support import faults
from tests.support.locks import held
from tests.support.processes import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
IS_POSTGRES = os.environ.get("HEADGATE_TEST_DB") == "postgres"
postgres_only = pytest.mark.skipif(not IS_POSTGRES, reason="a fault of PostgreSQL")
sqlite_only = pytest.mark.skipif(IS_POSTGRES, reason="a fault of SQLite")


def write() -> bool:
    Queue.objects.update_or_create(name="written", defaults={"weight": 2})
    return True


@pytest.fixture
def trouble() -> Trouble:
    return Trouble("default")


@pytest.fixture
def lines(caplog) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, "headgate_django.worker")
    return lambda: [record.getMessage() for record in caplog.records]


def recovers(trouble: Trouble, work: Callable[[], Any] = write, what: str = "write") -> None:
    """Until the pause is over and the statement works again."""
    wait_until(lambda: trouble.guard(what, work), "it works again")


def grow() -> bool:
    execute("default", "INSERT INTO filler VALUES (zeroblob(100000000))")
    return True


FAULTS = [
    pytest.param(faults.ended_backend, write, "57P01", marks=postgres_only),
    pytest.param(faults.read_only_server, write, "25006", marks=postgres_only),
    pytest.param(faults.revoked_right, write, "42501", marks=postgres_only),
    pytest.param(faults.refused_login, write, "OperationalError", marks=postgres_only),
    pytest.param(faults.unknown_host, write, "OperationalError", marks=postgres_only),
    pytest.param(faults.no_server, write, "OperationalError", marks=postgres_only),
    pytest.param(faults.locked_file, write, "SQLITE_BUSY", marks=sqlite_only),
    pytest.param(faults.full_disk, grow, "SQLITE_FULL", marks=sqlite_only),
    pytest.param(faults.no_file, write, "SQLITE_CANTOPEN", marks=sqlite_only),
    pytest.param(faults.damaged_file, write, "SQLITE_NOTADB", marks=sqlite_only),
]


@pytest.mark.parametrize(("fault", "work", "code"), FAULTS)
def test_an_outage_is_said_once_and_its_end_too(trouble, lines, fault, work, code):
    with fault():
        assert trouble.guard("write", work) is None
        assert trouble.pausing > 0
        assert connection.connection is None  # never met again
        assert trouble.guard("read", lambda: 1 / 0) is None  # not even tried

    recovers(trouble)
    assert trouble.pausing == 0
    assert len(lines()) == 2
    assert code in lines()[0]
    assert "cannot write" in lines()[0]
    assert lines()[1] == "the database answers again"


@pytest.mark.parametrize(("fault", "work", "code"), FAULTS)
def test_what_the_driver_says_about_an_outage_is_kept_to_itself(trouble, lines, fault, work, code):
    said = []

    def fails() -> Any:
        try:
            return work()
        except DatabaseError as error:
            said.append(str(error).splitlines()[0])
            raise

    with fault():
        trouble.guard("write", fails)

    assert said
    assert said[0] not in "".join(lines())


@pytest.fixture
def out() -> Iterator[None]:
    with faults.no_server() if IS_POSTGRES else faults.no_file():
        yield


def test_pauses_grow_to_a_limit(trouble, out, monkeypatch):
    pauses = []
    for _ in range(12):
        trouble.guard("write", write)
        pauses.append(trouble.pausing)
        trouble._outage._until = 0.0  # the pause is over

    assert 0 < pauses[0] <= 0.1
    assert pauses[3] > pauses[0]
    assert LONGEST_PAUSE / 3 < pauses[-1] <= LONGEST_PAUSE


def test_what_works_without_the_database_does_not_end_an_outage(trouble, lines, out):
    for _ in range(5):
        trouble.guard("write", write)
        trouble._outage._until = 0.0
        assert trouble.guard("ack", lambda: "nothing to do") == "nothing to do"

    assert len(lines()) == 1


def test_a_mistake_in_a_statement_is_shown_once_and_stops_no_other(trouble, caplog):
    def mistaken() -> None:
        execute("default", "UPDATE headgate_django_job SET no_such_column = 1")

    for _ in range(3):
        assert trouble.guard("beat", mistaken) is None
        assert trouble.pausing == 0
        assert trouble.floor > 0
        assert trouble.guard("write", write)
        trouble._own["beat"]._until = 0.0

    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "no_such_column" in "".join(traceback.format_exception(*caplog.records[0].exc_info))
    recovers(trouble, what="beat")
    assert trouble.floor == 0


def test_errors_of_our_own_code_end_no_loop(trouble, lines):
    assert trouble.guard("admit", lambda: {}["missing"]) is None
    assert trouble.guard("admit", lambda: "not yet") is None

    recovers(trouble, what="admit")
    assert lines() == ["cannot admit; trying again with growing pauses", "can admit again"]


def test_flapping_does_not_flood_the_log(trouble, lines):
    for _ in range(50):
        trouble.guard("admit", lambda: {}["missing"])
        trouble._own["admit"]._until = 0.0
        trouble.guard("admit", lambda: True)

    assert len(lines()) <= 4


@postgres_only
def test_a_lock_or_a_limit_in_the_way_of_one_statement_is_no_outage(trouble, lines):
    queue = Queue.objects.create(name="held")

    def touch() -> bool:
        with limited("default", lock_ms=20, statement_ms=5_000):
            return bool(Queue.objects.filter(pk=queue.pk).update(weight=7))

    def slow() -> None:
        with limited("default", lock_ms=20, statement_ms=20):
            fetch("default", "SELECT pg_sleep(30)")

    with held(lambda: Queue.objects.select_for_update().get(pk=queue.pk)):
        assert trouble.guard("touch", touch) is None
        assert trouble.guard("write", write)
    assert trouble.guard("sleep", slow) is None

    assert trouble.pausing == 0
    assert "55P03" in lines()[0]
    recovers(trouble, touch, "touch")


@postgres_only
def test_limits_end_with_their_transaction_and_cover_every_kind_of_statement():
    with limited("default", lock_ms=123, statement_ms=4_567):
        [limits] = fetch("default", "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')")
        assert write()
        assert fetch("default", "SELECT 1") == [(1,)]
        raw = connection.connection.execute("SHOW lock_timeout").fetchone()

    assert limits == ("123ms", "4567ms")
    assert raw == ("0",)  # nothing stays behind in the session


def test_the_first_statements_of_a_worker_are_tried_until_the_database_is_there(trouble, lines):
    tries = []

    def give_up() -> bool:
        return len(tries) >= 3

    def sync() -> str:
        tries.append(1)
        write()
        return "done"

    with faults.no_server() if IS_POSTGRES else faults.no_file():
        assert trouble.insist("synchronise", sync, give_up) is None
    assert len(tries) == 3
    assert trouble.insist("synchronise", sync, lambda: False) == "done"
    assert len(lines()) == 2


def test_a_mistake_in_the_first_statements_is_raised(trouble):
    with pytest.raises(ZeroDivisionError):
        trouble.insist("synchronise", lambda: 1 / 0, lambda: False)


def test_statements_are_not_collected_while_debug_is_on(trouble, settings):
    settings.DEBUG = True
    for _ in range(3):
        trouble.guard("write", write)

    assert len(connection.queries_log) == 0


def test_an_error_that_is_none_of_the_database_is_no_trouble_of_it():
    assert not is_connection_trouble(ValueError("database is locked"))
