"""What a thread is given back as after a job: no half-open transaction, no changed session, no leaked locale."""

from __future__ import annotations

import select
import threading
from collections.abc import Mapping

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone, translation

from headgate_django.worker import session

Blocks = Mapping[str, int]
"""How many atomic blocks are open, by database alias."""

_thread = threading.local()


def before_job() -> None:
    """Make the thread look new: usable connections, the project's language and time zone."""
    outer: dict[str, int] = {}
    for connection in connections.all(initialized_only=True):
        connection.queries_log.clear()
        if connection.in_atomic_block:
            outer[connection.alias] = len(connection.atomic_blocks)
        elif _was_ended(connection):
            _abandon(connection)
        else:
            connection.close_if_unusable_or_obsolete()
    _thread.outer = outer
    translation.deactivate()
    timezone.deactivate()


def after_job() -> None:
    """Drop what the handler left: a connection in an unknown condition, or with a changed session, is closed.

    A connection that was inside an atomic block before the job, as in a test case, is left alone.
    """
    outer: Blocks = _thread.__dict__.pop("outer", {})
    for connection in connections.all(initialized_only=True):
        connection.queries_log.clear()
        if connection.alias in outer:
            continue  # Django's close_old_connections would close it
        if _is_left(connection) or _is_dead(connection) or session.is_changed(connection):
            _abandon(connection)
        connection.close_if_unusable_or_obsolete()


def close_all() -> None:
    """Close every connection of this thread, at its end."""
    for connection in connections.all(initialized_only=True):
        if _is_left(connection) or _is_dead(connection) or session.is_changed(connection):
            _abandon(connection)
        else:
            connection.close()


def open_blocks() -> Blocks:
    """The atomic blocks that are open in this thread, before a handler is called."""
    return {
        connection.alias: len(connection.atomic_blocks)
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block
    }


def left_behind(outer: Blocks | None = None) -> str:
    """What the handler has done to a transaction and not undone, in words; empty when nothing.

    ``outer`` are the blocks that were open when it was called: by default those that ``before_job`` saw.
    """
    if outer is None:
        outer = getattr(_thread, "outer", {})
    for connection in connections.all(initialized_only=True):
        blocks = outer.get(connection.alias, 0)
        left = _inside(connection, blocks) if blocks else _is_left(connection)
        if left:
            return f"connection {connection.alias!r}: {left}"
    return ""


def _inside(connection: BaseDatabaseWrapper, blocks: int) -> str:
    # The handler ran inside a block of ours: that block must be the innermost again, and usable.
    if connection.closed_in_transaction:
        return "it was closed inside the transaction"
    if not connection.in_atomic_block or len(connection.atomic_blocks) != blocks:
        return "an atomic block was left open"
    if connection.needs_rollback:
        return "the transaction was marked for rollback, by a database error that was swallowed or by hand"
    raw = connection.connection
    if connection.vendor == "postgresql" and raw is not None:
        if raw.closed:
            return "it was closed inside the transaction"
        if raw.info.transaction_status.name == "INERROR":
            return "a database error was swallowed, and has broken the transaction"
    return ""


def _is_left(connection: BaseDatabaseWrapper) -> str:
    """The transaction that is open although no block of ours is."""
    if connection.in_atomic_block or connection.savepoint_ids:
        return "an atomic block was left open"
    if connection.connection is None or _is_dead(connection):
        return ""
    if connection.needs_rollback:
        return "the transaction was marked for rollback"
    if not connection.settings_dict["AUTOCOMMIT"]:
        return ""
    if not connection.autocommit:
        return "autocommit was left off"
    # A handler may have sent BEGIN by hand, unseen by Django.
    return "a transaction was left open" if _in_raw_transaction(connection) else ""


def _in_raw_transaction(connection: BaseDatabaseWrapper) -> bool:
    raw = connection.connection
    if connection.vendor == "sqlite":
        return bool(raw.in_transaction)
    if connection.vendor == "postgresql":
        return str(raw.info.transaction_status.name) != "IDLE"
    return False


def _is_dead(connection: BaseDatabaseWrapper) -> bool:
    """Whether the handler, or the server, closed it behind Django's back."""
    raw = connection.connection
    if raw is None:
        return False
    if connection.vendor == "sqlite":
        try:
            return bool(raw.in_transaction is None)
        except raw.ProgrammingError:
            return True
    return connection.vendor == "postgresql" and bool(raw.closed)


def _was_ended(connection: BaseDatabaseWrapper) -> bool:
    """Whether the server has said something on an idle connection: that it ends, most likely. No round trip."""
    raw = connection.connection
    if raw is None or connection.vendor != "postgresql" or raw.closed:
        return False
    poll = select.poll() if hasattr(select, "poll") else None
    if poll is None:
        return False
    poll.register(raw.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _abandon(connection: BaseDatabaseWrapper) -> None:
    keeps_open = not _is_dead(connection) and getattr(connection, "is_in_memory_db", bool)()
    raw, connection.connection = connection.connection, None
    connection.in_atomic_block = False
    connection.needs_rollback = False
    connection.savepoint_ids = []
    connection.atomic_blocks = []
    connection.run_on_commit = []
    connection.closed_in_transaction = False
    if raw is None:
        return
    if keeps_open:
        raw.rollback()  # to close it would be to lose the database
        connection.connection = raw
        connection.set_autocommit(True)
        return
    raw.close()
    if pool := getattr(raw, "_pool", None):
        pool.putconn(raw)  # it sees that this one is closed, and opens another
