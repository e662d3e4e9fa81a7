"""Staged races: a second connection that holds a lock, and the server's word for who waits for whom."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from django.db import connection, connections, transaction

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds after which a wait is given up: far beyond what a loaded machine needs."""


class Running(Generic[T]):
    """A call that runs in a thread of its own, on a connection of its own."""

    def __init__(self, work: Callable[[], T], prepare: Callable[[], Any] | None = None) -> None:
        self._work, self._prepare = work, prepare
        self._answer: list[T] = []
        self._error: BaseException | None = None
        self._connected = threading.Event()
        self.backend: int | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._connected.wait(PATIENCE)

    def _run(self) -> None:
        own = connections["default"]
        try:
            if self._prepare:
                self._prepare()
                own = connections["default"]
            own.ensure_connection()
            if own.vendor == "postgresql":
                self.backend = own.connection.info.backend_pid
            self._connected.set()
            self._answer.append(self._work())
        except BaseException as error:
            self._error = error
        finally:
            self._connected.set()
            connections["default"].close()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> T:
        """What the call returned, once it has; raises what it raised."""
        self._thread.join(PATIENCE)
        assert self.done, "the call has not ended"
        if self._error is not None:
            raise self._error
        return self._answer[0]


def together(*calls: Callable[[], T]) -> list[T]:
    """Run the calls at the same time, each on a connection of its own; what they returned, in order."""
    start = threading.Barrier(len(calls))

    def after_start(call: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            start.wait(PATIENCE)
            return call()

        return run

    running = [Running(after_start(call)) for call in calls]
    return [call.result() for call in running]


def wait_until_blocked(*waiting: Running[Any]) -> None:
    """Until the server says that each of the calls waits for a lock of another backend (PostgreSQL)."""
    end = time.monotonic() + PATIENCE
    with connection.cursor() as cursor:
        for call in waiting:
            while True:
                cursor.execute("SELECT cardinality(pg_blocking_pids(%s))", [call.backend])
                if cursor.fetchone()[0]:
                    break
                assert not call.done, f"it did not wait: {call.result()!r}"
                assert time.monotonic() < end, "it does not wait"


@contextmanager
def held(lock: Callable[[], Any]) -> Iterator[Callable[[], None]]:
    """Another connection's open transaction in which ``lock`` was called; the value commits it.

    Rolled back at the end of the block if it was not committed.
    """
    locked, release, committed = threading.Event(), threading.Event(), []

    def hold() -> None:
        with transaction.atomic():
            lock()
            locked.set()
            assert release.wait(PATIENCE)
            transaction.set_rollback(not committed)

    holder = Running(hold)

    def commit() -> None:
        committed.append(True)
        release.set()
        holder.result()

    try:
        while not locked.wait(0.01):
            if holder.done:
                holder.result()
        yield commit
    finally:
        release.set()
        holder.result()
