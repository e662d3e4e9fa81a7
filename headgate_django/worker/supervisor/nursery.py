"""Forks the processes of a worker: children that run jobs side by side, cells that run one, undertakers."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable

from django.db import connections

from headgate_django.models.store import alias
from headgate_django.worker.channel import Channel
from headgate_django.worker.control import Control
from headgate_django.worker.executors import cell
from headgate_django.worker.options import WorkerOptions
from headgate_django.worker.orders import Orders
from headgate_django.worker.process import be_worker
from headgate_django.worker.signals import Signals
from headgate_django.worker.supervisor.child import Child
from headgate_django.worker.supervisor.fork import fork
from headgate_django.worker.supervisor.inbox import FROM_OUTSIDE, Inbox
from headgate_django.worker.supervisor.undertaker import Report, bury


class Nursery:
    """What every child inherits is loaded once, here, and shared. Connections are not part of it."""

    def __init__(self, options: WorkerOptions, inbox: Inbox, close_others: Callable[[], None]) -> None:
        self._options = options
        self._inbox = inbox
        self._close_others = close_others

    def settle(self) -> None:
        """Once everything is loaded: what is here now is not looked at by any child's garbage collector."""
        gc.collect()
        gc.freeze()

    def start_child(self, worker_id: str, *, quiet: bool) -> Child:
        """A worker process, which admits nothing if it is to be quiet. Raises OSError."""
        ours, theirs = Channel.pair()
        orders = Orders(self._options.shutdown_timeout / 1000)
        if quiet:
            orders.quiet()
        control = Control(theirs, orders)

        def prepare() -> None:
            self._forget()
            ours.close()
            Signals(orders, supervised=True).install()

        try:
            pid = self._fork(prepare, lambda: be_worker(self._options, worker_id, control, orders))
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        return Child(pid, worker_id, ours)

    def start_cell(self, end: int, output: int, memory_limit: int) -> int:
        """A process for one job, at the other end of ``end``; its pid. Takes the descriptors. Raises OSError."""
        using = self._options.database or alias()

        def prepare() -> None:
            os.setsid()
            self._forget()
            _turn_deaf()

        def work() -> int:
            cell.serve(Channel.of(end), output, memory_limit, using)
            return 0

        try:
            return self._fork(prepare, work)
        finally:
            os.close(end)
            os.close(output)

    def start_undertaker(self, report: Report) -> int:
        """A process that reports a death; its pid. Raises OSError."""

        def prepare() -> None:
            self._forget()
            _turn_deaf()

        return self._fork(prepare, lambda: bury(report, self._options))

    def _fork(self, prepare: Callable[[], None], work: Callable[[], int]) -> int:
        connections.close_all()  # somebody's import may have asked the database
        return fork(prepare, work)

    def _forget(self) -> None:
        self._inbox.forget()
        self._close_others()


def _turn_deaf() -> None:
    # A signal to everything in the group or the container is for the supervisor to answer. Not SIG_IGN: programs
    # that the job starts would inherit it.
    for name in FROM_OUTSIDE:
        signal.signal(getattr(signal, name), lambda number, frame: None)
