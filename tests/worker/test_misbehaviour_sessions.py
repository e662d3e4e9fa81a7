"""Handlers that change the session of a persistent connection: the next job gets a clean one."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.backends.signals import connection_created

from headgate_django.core.states import Event
from headgate_django.models import Job
from headgate_django.worker.session import lasts
from tests.worker.performing import claim_of, perform

pytestmark = pytest.mark.django_db(transaction=True)

SECRET_LOCK = 4711


@pytest.fixture
def persistent(monkeypatch):
    """Connections that live for ten minutes."""
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 600)


def ask(sql: str):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()


def run_statement(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


CHANGES = {
    "postgresql": [
        ("SET search_path = pg_catalog", "SHOW search_path"),
        ("SET statement_timeout = '7s'", "SHOW statement_timeout"),
        ("SELECT set_config('statement_timeout', '7s', false)", "SHOW statement_timeout"),
        ("SELECT 1; SET statement_timeout = '7s'", "SHOW statement_timeout"),
        ("/* why */ SET work_mem = '7MB'", "SHOW work_mem"),
        ("SET ROLE pg_monitor", "SELECT current_user"),
        ("CREATE TEMP TABLE leftover (n int)", "SELECT to_regclass('pg_temp.leftover')"),
        ("CREATE OR REPLACE TEMP VIEW leftover AS SELECT 1", "SELECT to_regclass('pg_temp.leftover')"),
        ("CREATE LOCAL TEMP TABLE leftover (n int)", "SELECT to_regclass('pg_temp.leftover')"),
        ("SELECT 7 AS n INTO TEMP leftover", "SELECT to_regclass('pg_temp.leftover')"),
        (
            "WITH w AS (SELECT 7 AS n) SELECT n INTO LOCAL TEMPORARY leftover FROM w",
            "SELECT to_regclass('pg_temp.leftover')",
        ),
        (
            f"SELECT pg_advisory_lock({SECRET_LOCK})",
            f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {SECRET_LOCK}",
        ),
        ("PREPARE leftover AS SELECT 1", "SELECT count(*) FROM pg_prepared_statements WHERE name = 'leftover'"),
    ],
    "sqlite": [
        ("PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys"),
        ("PRAGMA busy_timeout = 7", "PRAGMA busy_timeout"),
        ("CREATE TEMP TABLE leftover (n int)", "SELECT count(*) FROM sqlite_temp_master"),
        ("ATTACH ':memory:' AS leftover", "SELECT count(*) FROM pragma_database_list"),
    ],
}


def test_what_a_handler_sets_does_not_reach_the_next_one(persistent, vendor, now):
    answers = []
    for number, (change, question) in enumerate(CHANGES[vendor]):
        seen = []

        def look(seen=seen, question=question) -> None:
            seen.append(ask(question))

        def change_it(seen=seen, change=change, question=question) -> None:
            run_statement(change)
            seen.append(ask(question))

        look.__name__, change_it.__name__ = f"look{number}", f"change{number}"
        perform(claim_of(look), claim_of(change_it), claim_of(look, aliases=[f"test:again{number}"]))
        answers.append((change, seen[0] != seen[1], seen[2] == seen[0]))

    assert answers == [(change, True, True) for change, _ in CHANGES[vendor]]


def test_a_session_that_was_not_changed_is_kept(persistent, now):
    sessions = []

    def works() -> None:
        Job.objects.count()
        sessions.append(connection.connection)

    claim = claim_of(works)

    perform(claim, claim, claim)

    assert sessions[0] is sessions[1] is sessions[2]


def test_a_session_that_was_changed_only_for_its_transaction_is_kept(persistent, vendor, now):
    sessions = []

    def works() -> None:
        with connection.cursor() as cursor:
            if vendor == "postgresql":
                cursor.execute("SET LOCAL statement_timeout = '7s'")
                cursor.execute("SELECT set_config('statement_timeout', '7s', true)")
        Job.objects.count()
        sessions.append(connection.connection)

    claim = claim_of(works, atomic=True)
    again = claim_of(works)

    perform(claim, again)

    assert sessions[0] is sessions[1]


def test_what_the_project_sets_on_every_new_connection_counts_as_clean(persistent, vendor, now):
    sessions = []

    def prepares(connection, **kwargs) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET work_mem = '7MB'" if vendor == "postgresql" else "PRAGMA cache_size = 700")

    def works() -> None:
        Job.objects.count()
        sessions.append(connection.connection)

    claim = claim_of(works)
    receivers = list(connection_created.receivers)
    connection_created.connect(prepares)
    connection_created.receivers = connection_created.receivers[-1:] + receivers  # before ours, as in an app
    connection_created.sender_receivers_cache.clear()
    try:
        perform(claim, claim)
    finally:
        connection_created.receivers = receivers
        connection_created.sender_receivers_cache.clear()

    assert sessions[0] is sessions[1]


def test_a_wrapper_that_a_handler_takes_off_is_its_own(persistent, now):
    left = []

    def passes(execute, sql, params, many, context):
        return execute(sql, params, many, context)

    def wraps() -> None:
        with connection.execute_wrapper(passes):
            Job.objects.count()  # connects
        left.extend(connection.execute_wrappers)

    [outcome] = perform(claim_of(wraps))

    assert outcome.event is Event.SUCCEED
    assert passes not in left


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1", False),
        ('UPDATE "t" SET "a" = 1', False),
        ("SET LOCAL x = 1", False),
        ("set transaction isolation level serializable", False),
        ("SET CONSTRAINTS ALL IMMEDIATE", False),
        ("SELECT set_config('a', %s, true), set_config('b', 'off', true)", False),
        ("SELECT set_config('a', %s, true), set_config('b', 'off', false)", True),
        ("-- why\n  Set Session x = 1", True),
        ("RESET ALL", True),
        ("listen something", True),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT 1", True),
        ("DECLARE c CURSOR FOR SELECT 1", False),
        ("SELECT pg_try_advisory_lock(1)", True),
        ("INSERT INTO t VALUES ('; SET x')", True),  # a false alarm costs one connection
        (b"SELECT 1", True),
    ],
)
def test_statements_that_outlive_themselves_are_known(sql, expected):
    assert lasts(sql) is expected
