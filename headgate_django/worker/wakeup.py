"""How the runtime waits: for results, signals and new work, whichever is first."""

from __future__ import annotations

import contextlib
import select
import socket
import time

from headgate_django.lifecycle.wakeup import Listener

FILE_WATCH_SECONDS = 0.05
"""How often SQLite's file is looked at while the worker is idle."""


class Wakeup:
    """One wait over a pipe to ourselves and the listening connection."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def set(self) -> None:
        """End the current or the next wait. Safe from any thread and from signal handlers."""
        with contextlib.suppress(BlockingIOError, OSError):
            self._writer.send(b"x")

    def wait(self, timeout: float, *, for_work: bool) -> bool:
        """Wait up to ``timeout`` seconds; whether new work may have arrived (only looked at ``for_work``).

        Raises a database error when the listening connection is gone.
        """
        if not for_work:
            self._select(timeout, None)
            return False
        self._listener.subscribe()
        end = time.monotonic() + timeout
        while True:
            if self._listener.heard():
                return True
            remaining = end - time.monotonic()
            if remaining <= 0:
                return False
            connection = self._listener.fileno()
            if self._select(
                remaining if connection is not None else min(remaining, FILE_WATCH_SECONDS), connection
            ):
                return self._listener.heard()

    def close(self) -> None:
        """Release the pipe."""
        self._reader.close()
        self._writer.close()

    def _select(self, timeout: float, connection: int | None) -> bool:
        sources: list[socket.socket | int] = [self._reader] if connection is None else [self._reader, connection]
        ready, _, _ = select.select(sources, [], [], max(0.0, timeout))
        if self._reader in ready:
            with contextlib.suppress(BlockingIOError):
                self._reader.recv(4096)
            return True
        return False
