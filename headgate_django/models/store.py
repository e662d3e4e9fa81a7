"""Which database holds the queue, and how to write to it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from django.apps import apps
from django.db import InterfaceError, OperationalError, connections, router, transaction

from headgate_django.conf import config
from headgate_django.models import clock

T = TypeVar("T")

LOCK_RETRIES = 8
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
    for attempt in range(LOCK_RETRIES):
        try:
            return work()
        except OperationalError as error:
            last = attempt == LOCK_RETRIES - 1
            if last or connections[using].in_atomic_block or not is_contention(error):
                raise
            threading.Event().wait(random.uniform(0, 0.02 * 2**attempt))
    raise AssertionError("unreachable")


def is_contention(error: BaseException) -> bool:
    """Whether the statement failed only because of somebody else's transaction."""
    cause = error.__cause__
    code = getattr(cause, "sqlstate", None)
    return code in {"40001", "40P01", "55P03"} or "locked" in str(error)


def is_connection_trouble(error: BaseException) -> bool:
    """Whether the database, rather than the statement, is the problem."""
    return isinstance(error, OperationalError | InterfaceError)


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
    """``key = value``, for an UPDATE joined to rows in the order of their keys.

    On PostgreSQL no hash or merge join fits this form, so that the rows are looked up, and locked, in that order;
    only in a table of a few hundred rows may the planner go the other way round.
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
