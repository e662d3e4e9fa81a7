"""Tell sleeping workers that there is work. A lost notification costs a poll interval, never a job."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from django.db import connections, transaction

from headgate_django.models.store import execute, fetch, is_postgres

CHANNEL = "headgate_django"
MIN_INTERVAL = 0.05

_last_sent: dict[tuple[str, str], float] = {}
_lock = threading.Lock()


def notify_after_commit(queues: Iterable[str], using: str) -> None:
    """Notify, once the transaction has committed, at most once per queue per 50 ms and process.

    A NOTIFY takes a lock of the whole server at commit, hence the pause between two. SQLite's workers watch the
    file instead.
    """
    if is_postgres(using):
        for queue in queues:
            transaction.on_commit(lambda queue=queue: _notify(queue, using), using=using, robust=True)  # type: ignore[misc]


def _notify(queue: str, using: str) -> None:
    now = time.monotonic()
    with _lock:
        if now - _last_sent.get((using, queue), -1.0) < MIN_INTERVAL:
            return
        _last_sent[using, queue] = now
    # The payload has a small fixed size: 64 characters of a queue's name are a hint, not an address.
    execute(using, "SELECT pg_notify(%s, %s)", [CHANNEL, queue[:64]])


def listen(using: str) -> None:
    """Subscribe this thread's connection to notifications (PostgreSQL)."""
    execute(using, f"LISTEN {CHANNEL}")


def drain_notifications(using: str) -> int:
    """Take what has arrived on this thread's connection, without waiting; how many."""
    connection = connections[using].connection
    return sum(1 for _ in connection.notifies(timeout=0)) if connection is not None else 0


def data_version(using: str) -> int:
    """A number that changes when another connection commits to the file (SQLite)."""
    return int(fetch(using, "PRAGMA data_version")[0][0])
