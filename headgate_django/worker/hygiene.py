"""What a thread is given back as after a job: no half-open transaction, no stale connection, no leaked locale."""

from __future__ import annotations

from django.db import close_old_connections, connections, reset_queries
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone, translation


def before_job() -> None:
    """Make the thread look new: usable connections, the project's language and time zone."""
    reset_queries()
    close_old_connections()
    translation.deactivate()
    timezone.deactivate()


def after_job() -> None:
    """Drop what the handler left behind; a connection in an unknown condition is closed."""
    for connection in connections.all(initialized_only=True):
        if _left_open(connection):
            _abandon(connection)
    reset_queries()
    close_old_connections()


def _left_open(connection: BaseDatabaseWrapper) -> bool:
    if connection.connection is None:
        return bool(connection.in_atomic_block or connection.savepoint_ids)
    if connection.in_atomic_block or connection.needs_rollback:
        return True
    if not connection.settings_dict["AUTOCOMMIT"]:
        return False
    return not connection.autocommit or _in_raw_transaction(connection)


def _in_raw_transaction(connection: BaseDatabaseWrapper) -> bool:
    # A handler may have sent BEGIN by hand, unseen by Django.
    raw = connection.connection
    if connection.vendor == "sqlite":
        try:
            return bool(raw.in_transaction)
        except raw.ProgrammingError:  # the handler closed it
            return True
    if connection.vendor == "postgresql":
        return bool(raw.closed) or raw.info.transaction_status.name != "IDLE"
    return False


def _abandon(connection: BaseDatabaseWrapper) -> None:
    raw, connection.connection = connection.connection, None
    connection.in_atomic_block = False
    connection.needs_rollback = False
    connection.savepoint_ids = []
    connection.run_on_commit = []
    connection.closed_in_transaction = False
    if raw is not None:
        raw.close()


def close_all() -> None:
    """Close every connection of this thread, at its end."""
    for connection in connections.all(initialized_only=True):
        if _left_open(connection):
            _abandon(connection)
        else:
            connection.close()
