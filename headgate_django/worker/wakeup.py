"""How the runtime waits: for results, signals, new work and messages, whichever is first."""

from __future__ import annotations

import contextlib
import logging
import math
import selectors
import socket
import time

from headgate_django.lifecycle.wakeup import Heard, Listener

logger = logging.getLogger("headgate_django.worker")

FILE_WATCH_SECONDS = 0.05
"""How often SQLite's file is looked at while the worker is idle."""

_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""A handler may leave a thousand files open; ``select`` refuses numbers above that."""


class Wakeup:
    """One wait over a pipe to ourselves and the listening connection."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._work = self._look = False
        self._pooled = False
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._selector = _Selector()
        self._selector.register(self._reader, selectors.EVENT_READ)

    @property
    def mode(self) -> str:
        """How new work is heard of: ``listen``, ``file`` or ``poll``."""
        return self._listener.mode

    def limited(self) -> contextlib.AbstractContextManager[None]:
        """While it lasts, no statement of this thread waits for long for somebody else's lock."""
        return self._listener.limited()

    def set(self) -> None:
        """End the current or the next wait. Safe from any thread and from signal handlers."""
        with contextlib.suppress(BlockingIOError, OSError):
            self._writer.send(b"x")

    def pause(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for ``set`` alone: no database is touched."""
        self._select(timeout, None)

    def wait(self, timeout: float, *, for_work: bool) -> Heard:
        """Wait up to ``timeout`` seconds; what was heard.

        A worker without a free place (not ``for_work``) is woken by messages to it only; that there was work is
        kept for the next wait that wants it. Raises a database error when the listening connection is gone.
        """
        self._subscribe()
        end = time.monotonic() + timeout
        while not self._hear(for_work):
            remaining = end - time.monotonic()
            if remaining <= 0:
                break
            if self._select(min(remaining, self._patience(for_work)), self._listener.fileno()):
                self._hear(for_work)
                break
        return self._take(for_work)

    def close(self) -> None:
        """Release the pipe."""
        self._selector.close()
        self._reader.close()
        self._writer.close()

    def _subscribe(self) -> None:
        self._listener.subscribe()
        if self._listener.pooled != self._pooled:
            self._pooled = self._listener.pooled
            if self._pooled:
                logger.info("a pooler stands before the database: no LISTEN, new work is found by polling alone")
            else:
                logger.info("no pooler stands before the database any more: LISTEN is used")

    def _hear(self, for_work: bool) -> bool:
        if for_work or self.mode != "file":
            heard = self._listener.heard()
            self._work |= heard.work
            self._look |= heard.look
        return self._look or (for_work and self._work)

    def _take(self, for_work: bool) -> Heard:
        heard = Heard(for_work and self._work, self._look)
        self._work &= not for_work
        self._look = False
        return heard

    def _patience(self, for_work: bool) -> float:
        return FILE_WATCH_SECONDS if for_work and self.mode == "file" else math.inf

    def _select(self, timeout: float, connection: int | None) -> bool:
        if connection is not None:
            self._selector.register(connection, selectors.EVENT_READ)
        try:
            ready = [key.fileobj for key, _ in self._selector.select(max(0.0, timeout))]
        finally:
            if connection is not None:  # the next time it may be another one
                self._selector.unregister(connection)
        if self._reader in ready:
            with contextlib.suppress(BlockingIOError):
                self._reader.recv(4096)
            return True
        return False
