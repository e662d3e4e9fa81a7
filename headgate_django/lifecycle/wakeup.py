"""Tell workers that there is work, and hear of it. A lost notification costs a poll interval, never a job."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple

from django.db import connections, transaction

from headgate_django.conf import config
from headgate_django.models.messages import CHANNEL, channel_of, notify_workers
from headgate_django.models.store import execute, fetch, is_pooled, is_postgres, limited

__all__ = ["CHANNEL", "Heard", "Listener", "notify_after_commit", "notify_workers"]

MIN_INTERVAL = 0.05
MAX_REMEMBERED = 1_000
LOCK_MS = 2_000
"""How long a worker's own statements wait for a lock, at most."""

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


class Heard(NamedTuple):
    """What may have arrived: new work, or a message to look at the leases and the worker's row now."""

    work: bool
    look: bool


class Listener:
    """Hears of new work, and messages to this worker, on this thread's connection.

    Polling alone is always correct; this only shortens waits. PostgreSQL: LISTEN, again whenever the connection is
    a new one. Behind a pooler it would listen on a session that serves others a moment later: ``mode`` is then
    ``poll``. SQLite: a look at the file's data version, which changes when another connection commits.
    """

    def __init__(self, using: str, worker_id: str, lock_ms: int = LOCK_MS) -> None:
        self._using = using
        self._lock_ms = min(lock_ms, LOCK_MS)
        self._channels = (CHANNEL, channel_of(worker_id))
        self._known: Any = None  # the driver's connection whose mode is settled
        self._work = self._look = False
        self._version = -1
        self.mode: Literal["listen", "file", "poll"] = "file" if connections[using].vendor == "sqlite" else "poll"
        self.pooled = False

    def subscribe(self) -> None:
        """Make sure that the current connection listens, if it can."""
        if not is_postgres(self._using):
            return
        connection = connections[self._using]
        connection.ensure_connection()
        if connection.connection is self._known:
            return
        wanted = config().listen
        self.pooled = wanted == "auto" and is_pooled(self._using)
        self.mode = "poll" if self.pooled or not wanted else "listen"
        if self.mode == "listen":
            for channel in self._channels:
                execute(self._using, f"LISTEN {channel}")
            execute(self._using, f"SET lock_timeout = {self._lock_ms}")
        self._known = connection.connection
        self._work = self._look = True  # whatever was missed while nobody listened

    def limited(self) -> AbstractContextManager[None]:
        """Nobody who has locked a row keeps this thread from all its leases: no statement waits for long.

        A session that listens is ours and knows the limit. Any other, a new one above all, is told each time.
        """
        return limited(self._using, lock_ms=self._lock_ms, unless=lambda: self._raw() is not None)

    def fileno(self) -> int | None:
        """What to wait on besides the caller's own events; None when there is nothing to wait on."""
        raw = self._raw()
        with connections[self._using].wrap_database_errors:
            return int(raw.fileno()) if raw is not None else None

    def heard(self) -> Heard:
        """What may have arrived since the last call. Raises a database error when the connection is gone."""
        if self.mode == "file":
            version = int(fetch(self._using, "PRAGMA data_version")[0][0])
            self._work |= version != self._version
            self._version = version
        raw = self._raw()
        if raw is not None:
            with connections[self._using].wrap_database_errors:
                for notice in raw.notifies(timeout=0):
                    self._work |= notice.channel == CHANNEL
                    self._look |= notice.channel != CHANNEL
        heard = Heard(self._work, self._look)
        self._work = self._look = False
        return heard

    def _raw(self) -> Any:
        raw = connections[self._using].connection
        return raw if self.mode == "listen" and raw is self._known else None
