"""Which database holds the queue, and how to write to it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

from django.apps import apps
from django.db import DatabaseError, InterfaceError, OperationalError, connections, router, transaction

from headgate_django.conf import config
from headgate_django.models import clock

T = TypeVar("T")

LOCK_RETRIES = 8
LOCK_PATIENCE = 15.0
"""Seconds of waiting for another writer after which nothing is tried again."""
_OTHER_PARAMS = 32  # of a statement that also names ids


def alias() -> str:
    """The database alias that holds the queue: HEADGATE["DATABASE"], else where the routers write ``Job``."""
    return config().database or router.db_for_write(apps.get_model("headgate_django", "Job"))


def is_postgres(using: str) -> bool:
    """Whether the PostgreSQL form of a statement may be used."""
    return connections[using].vendor == "postgresql"


@contextmanager
def write_transaction(using: str) -> Iterator[None]:
    """A READ COMMITTED transaction that takes SQLite's write lock at its start, so that it can wait for it.

    SQLite fails at once, without waiting, when a transaction that began by reading turns to writing while
    another writer is active; hence BEGIN IMMEDIATE, whatever the project's ``transaction_mode``. Inside the
    caller's transaction this is a savepoint.
    """
    connection: Any = connections[using]
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        outermost = not connection.in_atomic_block
        with transaction.atomic(using=using):
            if outermost:
                _read_committed(connection)
            take_write_lock(using)
            yield
        return
    connection.ensure_connection()  # connecting sets the project's mode; it must not undo ours
    mode = connection.transaction_mode
    connection.transaction_mode = "IMMEDIATE"
    try:
        with transaction.atomic(using=using):
            connection.transaction_mode = mode
            yield
    finally:
        connection.transaction_mode = mode


def _read_committed(connection: Any) -> None:
    # What was locked is read as it stands now, not as it was when a stricter isolation_level took its snapshot.
    level = getattr(connection, "isolation_level", None)
    if level is not None and level.name != "READ_COMMITTED":
        execute(connection.alias, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")


_PINS = "".join(
    f", set_config('{setting}', 'off', true)" for setting in ("enable_seqscan", "enable_bitmapscan", "jit")
)


def begin_pinned(using: str) -> int:
    """The store's time; on PostgreSQL the same statement pins the plans of this transaction.

    Until it ends every step goes along its index, in order, and stops at its LIMIT. A planner whose statistics are
    a minute old may prefer to read and sort a whole backlog that has just arrived.
    """
    pins = _PINS if is_postgres(using) else ""
    return int(fetch(using, f"SELECT {clock.now_sql(using)}{pins}")[0][0])


def take_write_lock(using: str) -> None:
    """Inside a transaction that somebody else began: take SQLite's write lock, waiting for it, before reading.

    A transaction that has already read fails at once instead of waiting; only its owner can prevent that, with
    ``transaction_mode = "IMMEDIATE"``.
    """
    if connections[using].vendor == "sqlite":
        execute(using, "DELETE FROM headgate_django_duty WHERE 1 = 0")


def retrying_locked(using: str, work: Callable[[], T]) -> T:
    """Run ``work`` (a whole transaction), again with jitter while another writer holds the database.

    Inside the caller's transaction nothing is repeated: only the caller can repeat it.
    """
    end = time.monotonic() + LOCK_PATIENCE
    for attempt in range(LOCK_RETRIES):
        try:
            return work()
        except OperationalError as error:
            # Who has a limit on waiting for locks has waited already, and has a plan.
            last = attempt == LOCK_RETRIES - 1 or time.monotonic() >= end or is_locked_out(error)
            if last or connections[using].in_atomic_block or not is_contention(error):
                raise
            threading.Event().wait(random.uniform(0, 0.02 * 2**attempt))
    raise AssertionError("unreachable")


def is_locked_out(error: BaseException) -> bool:
    """Whether the statement waited for somebody else's lock for as long as it may."""
    return error_code(error) == LOCK_TIMEOUT


def is_contention(error: BaseException) -> bool:
    """Whether the statement failed only because of somebody else's transaction."""
    return error_code(error) in {"40001", "40P01", LOCK_TIMEOUT} or "locked" in str(error)


LOCK_TIMEOUT, CANCELLED = "55P03", "57014"
_NO_RIGHT, _NO_DATABASE = "42501", "3D000"
TRANSACTION_STATE, _TOO_COMPLEX = "25", "54"  # classes: a read-only or failed transaction; limits of a statement
_SQLITE_ERROR, _SQLITE_CORRUPT, _SQLITE_NOTADB = 1, 11, 26  # 1 is what no other code says: a wrong statement


def error_code(error: BaseException) -> str:
    """The SQLSTATE of a database error, or SQLite's name for it; empty when there is none."""
    cause = error.__cause__
    return getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None) or ""


def is_connection_trouble(error: BaseException) -> bool:
    """Whether the database, rather than the statement, is the problem.

    True for what may work again later without anybody touching the code: a lost connection, a failover, a server
    without resources, a lock, a revoked right, a full disk.
    """
    if not isinstance(error, DatabaseError | InterfaceError):
        return False
    number = getattr(error.__cause__, "sqlite_errorcode", None)
    if number is not None:
        serious = number & 0xFF in {_SQLITE_CORRUPT, _SQLITE_NOTADB}
        return serious or (isinstance(error, OperationalError) and number & 0xFF != _SQLITE_ERROR)
    code = error_code(error)
    if code in {_NO_RIGHT, _NO_DATABASE} or code.startswith(TRANSACTION_STATE):
        return True
    return isinstance(error, OperationalError | InterfaceError) and not code.startswith(_TOO_COMPLEX)


def is_pooled(using: str) -> bool:
    """Whether a pooler stands between this connection and PostgreSQL.

    Certain when the process that answers is not the one that the driver was told of when it connected. A pooler
    that forwards the process number for as long as the client stays (sessions are pooled, not transactions) is not
    seen, and need not be: there a session keeps what it is told.
    """
    [(answering,)] = fetch(using, "SELECT pg_backend_pid()")
    return bool(connections[using].connection.info.backend_pid != answering)


@contextmanager
def limited(
    using: str, *, lock_ms: int, statement_ms: int | None = None, unless: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """No statement of this thread waits longer than ``lock_ms`` for a lock or runs longer than ``statement_ms``.

    PostgreSQL ends those that do. The limits are set inside each transaction: set for the session, they would stay
    behind for others on a pooler's connection. Nothing is set where ``unless`` says that the session has limits of
    its own. SQLite's limit is the ``timeout`` of the project.
    """
    if not is_postgres(using):
        yield
        return
    sql = f"SET LOCAL lock_timeout = {int(lock_ms)}"
    if statement_ms is not None:
        sql += f"; SET LOCAL statement_timeout = {int(statement_ms)}"

    def limit(execute: Callable[..., Any], statement: str, params: Any, many: bool, context: Any) -> Any:
        connection = context["connection"]
        if connection.connection.info.transaction_status.name != "IDLE" or unless():
            return execute(statement, params, many, context)
        with nullcontext() if connection.in_atomic_block else transaction.atomic(using=using):
            with connection.wrap_database_errors:
                connection.connection.execute(sql)
            return execute(statement, params, many, context)

    with connections[using].execute_wrapper(limit):
        yield


def fetch(using: str, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The rows of a hand-written statement."""
    with connections[using].cursor() as cursor:
        cursor.execute(sql, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def execute(using: str, sql: str, params: Sequence[Any] = ()) -> int:
    """Run a hand-written statement; the number of rows it touched."""
    with connections[using].cursor() as cursor:
        cursor.execute(sql, params)
        return int(cursor.rowcount)


def batches(ids: Sequence[str], using: str) -> Iterator[Sequence[str]]:
    """The ids in parts that fit into one statement, whatever the database's limit on parameters."""
    step = (connections[using].features.max_query_params or 12_000) - _OTHER_PARAMS
    for start in range(0, len(ids), step):
        yield ids[start : start + step]


def marks(count: int, width: int = 0) -> str:
    """Placeholders: ``%s, %s`` or, with a width, ``(%s, %s), (%s, %s)``."""
    one = f"({', '.join(['%s'] * width)})" if width else "%s"
    return ", ".join([one] * count)


def literals(*values: str) -> str:
    """``'a', 'b'``: our own constants, spelled out so that every planner can match a partial index."""
    return ", ".join(f"'{value}'" for value in values)


def unindexed(column: str) -> str:
    """The column, hidden from the planner: for rows found by id, where an index on few states looks tempting.

    With statistics that are a minute old a planner takes the running or the available jobs for a handful.
    """
    return f"COALESCE({column}, '')"


def one_by_one(using: str, key: str, value: str) -> str:
    """``key = value``, for tables joined to a handful of rows that are found by their keys.

    On PostgreSQL no hash or merge join fits this form, so that the rows are looked up instead of the table read.
    """
    return f"{key} = ANY(ARRAY[{value}])" if is_postgres(using) else f"{key} = {value}"


def indexed_by(using: str, index: str) -> str:
    """The clause after a table that fixes its index, where a planner without statistics (SQLite) errs."""
    return f"INDEXED BY {index}" if connections[using].vendor == "sqlite" else ""


def skip_locked(using: str) -> str:
    """The clause that passes over rows locked by others, where the database has it."""
    features = connections[using].features
    return "FOR UPDATE SKIP LOCKED" if features.has_select_for_update_skip_locked else ""


def rowset(
    using: str, name: str, columns: Mapping[str, str], rows: Sequence[Sequence[Any]]
) -> tuple[str, list[Any]]:
    """``name (columns…) AS (…)`` for a WITH clause, and its parameters: values handed to the database as a table.

    ``columns`` maps each column to its SQL type. On PostgreSQL the values travel as one array a column, so that
    the statement's text does not depend on their number.
    """
    head = f"{name} ({', '.join(columns)}) AS"
    if is_postgres(using):
        arrays = ", ".join(f"%s::{sql_type}[]" for sql_type in columns.values())
        return f"{head} (SELECT * FROM unnest({arrays}))", [list(column) for column in zip(*rows, strict=True)]
    return f"{head} (VALUES {marks(len(rows), len(columns))})", [value for row in rows for value in row]


def rows_per_statement(using: str, width: int) -> int:
    """How many rows of ``width`` values fit into one statement."""
    return max(1, (connections[using].features.max_query_params or 20_000) // width)
