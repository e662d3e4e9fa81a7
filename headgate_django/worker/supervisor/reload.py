"""Autoreload for development: a process that starts the worker afresh whenever a Python file changes."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import time
from collections import deque

from django.utils.autoreload import get_child_arguments, iter_all_python_module_files

from headgate_django.exceptions import ConfigurationError
from headgate_django.worker.supervisor.inbox import Inbox
from headgate_django.worker.supervisor.sources import snapshot

logger = logging.getLogger("headgate_django.worker")

RELOADED = "HEADGATE_RELOADED"
"""Set in the environment of the worker that is started afresh."""

LOOK_SECONDS = 1.0

URGES = ((0.0, "SIGTERM"), (1.0, "SIGTERM"), (16.0, "SIGQUIT"))
"""After so many seconds: finish; give back what still runs, which costs it nothing; end at once."""

STOPPING = {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"}


_PR_SET_PDEATHSIG = 1


def follow_parent() -> None:
    """In the worker that is started afresh: end in order when its reloader is killed. Only Linux can tell."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))


class Reloader:
    """Stops the worker in order, so that no run is lost or counted as a crash, and starts it again.

    What a change breaks shows as the worker's own traceback; the next change is waited for.
    """

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._worker: subprocess.Popen[bytes] | None = None
        self._urges: deque[tuple[float, str]] = deque()
        self._restarting = False
        self._stopping = False

    def run(self) -> int:
        """Until a signal asks to stop; the worker's exit code. Raises ConfigurationError where it cannot work."""
        if not hasattr(os, "fork"):
            raise ConfigurationError("--reload needs a system with POSIX signals and fork")
        modules = frozenset(iter_all_python_module_files())  # once: what we import later is no change
        seen = snapshot(modules)
        self._start()
        while True:
            select.select([self._inbox], [], [], LOOK_SECONDS)
            for number in self._inbox.take():
                self._pass_on(number)
            code = self._reap()
            if self._stopping and self._worker is None:
                return max(0, code)
            if not self._stopping and seen != (now := snapshot(modules)):
                seen = now
                self._restart()
            if self._restarting and self._worker is None:
                self._start()
            self._urge()

    def _start(self) -> None:
        self._restarting = False
        self._urges.clear()  # they were for the one before
        environment = {**os.environ, RELOADED: "1"}
        # In a session of its own: Ctrl-C reaches us alone, and is passed on once.
        self._worker = subprocess.Popen(get_child_arguments(), env=environment, start_new_session=True)

    def _restart(self) -> None:
        logger.info("a Python file has changed: the worker starts afresh")
        if not self._restarting:
            now = time.monotonic()
            self._urges.extend((now + wait, name) for wait, name in URGES)
        self._restarting = True

    def _urge(self) -> None:
        while self._urges and time.monotonic() >= self._urges[0][0]:
            self._send(signal.Signals[self._urges.popleft()[1]])

    def _reap(self) -> int:
        """The exit code of a worker that has ended since the last call; else 0."""
        code = self._worker.poll() if self._worker else None
        if code is None:
            return 0
        self._worker = None
        if not (self._restarting or self._stopping):
            logger.warning("the worker ended with exit code %d; waiting for the next change", code)
        return code

    def _pass_on(self, number: signal.Signals) -> None:
        if number.name == "SIGCHLD":
            return
        if number.name in STOPPING:
            self._stopping = True
            self._restarting = False
            self._urges.clear()
        self._send(number)

    def _send(self, number: signal.Signals) -> None:
        if self._worker is not None and self._worker.poll() is None:
            self._worker.send_signal(number)
