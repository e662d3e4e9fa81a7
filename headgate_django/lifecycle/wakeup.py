"""Tell sleeping workers that there is work. A lost notification costs a poll interval, never a job."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from django.db import connections, transaction

from headgate_django.models.store import execute, fetch, is_postgres

CHANNEL = "headgate_django"
MIN_INTERVAL = 0.05
MAX_REMEMBERED = 1_000

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
        if len(_last_sent) >= MAX_REMEMBERED:
            _last_sent.clear()  # names of queues may be made up without end; the worst is a spare notification
        _last_sent[using, queue] = now
    # The payload has a small fixed size: 64 characters of a queue's name are a hint, not an address.
    execute(using, "SELECT pg_notify(%s, %s)", [CHANNEL, queue[:64]])


class Listener:
    """Hears of new work on this thread's connection. Polling alone is always correct; this only shortens waits.

    PostgreSQL: LISTEN, again whenever the connection is a new one. SQLite: a look at the file's data version,
    which changes when another connection commits.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._heard = False
        self._subscribed: Any = None
        self._version = -1

    def subscribe(self) -> None:
        """Make sure that the current connection listens."""
        if not is_postgres(self._using):
            return
        connection = connections[self._using]
        connection.ensure_connection()
        if connection.connection is not self._subscribed:
            execute(self._using, f"LISTEN {CHANNEL}")
            self._subscribed = connection.connection
            self._heard = True  # whatever was missed while nobody listened

    def fileno(self) -> int | None:
        """What to wait on besides the caller's own events; None when there is nothing to wait on."""
        raw = connections[self._using].connection
        return raw.fileno() if raw is not None and raw is self._subscribed else None

    def heard(self) -> bool:
        """Whether something may have arrived since the last call."""
        if not is_postgres(self._using):
            version = int(fetch(self._using, "PRAGMA data_version")[0][0])
            changed, self._version = version != self._version, version
            return changed
        raw = connections[self._using].connection
        if raw is not None and raw is self._subscribed:
            for _ in raw.notifies(timeout=0):
                self._heard = True
        heard, self._heard = self._heard, False
        return heard
