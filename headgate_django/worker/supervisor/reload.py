"""Autoreload for development: a process that starts the worker afresh whenever a Python file changes."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from django.apps import apps
from django.utils.autoreload import get_child_arguments, iter_all_python_module_files

from headgate_django.worker.supervisor.inbox import Inbox

logger = logging.getLogger("headgate_django.worker")

RELOADED = "HEADGATE_RELOADED"
"""Set in the environment of the worker that is started afresh."""

LOOK_SECONDS = 1.0
DRAIN_SECONDS = 1.0
PATIENCE_SECONDS = 15.0


class Reloader:
    """Stops the worker in order, so that no run is lost or counted as a crash, and starts it again.

    What a change breaks shows as the worker's own traceback; the next change is waited for.
    """

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._worker: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def run(self) -> int:
        """Until a signal asks to stop; the worker's exit code."""
        seen = snapshot()
        self._start()
        while True:
            select.select([self._inbox], [], [], LOOK_SECONDS)
            for number in self._inbox.take():
                self._pass_on(number)
            code = self._worker.poll() if self._worker else None
            if self._stopping and (self._worker is None or code is not None):
                return max(0, code or 0)
            if code is not None:
                logger.warning("the worker ended with exit code %d; waiting for the next change", code)
                self._worker = None
            changed = seen != (now := snapshot())
            if changed and not self._stopping:
                seen = now
                logger.info("a Python file has changed: the worker starts afresh")
                self._stop()
                self._start()

    def _start(self) -> None:
        environment = {**os.environ, RELOADED: "1"}
        # In a session of its own: Ctrl-C reaches us alone, and is passed on once.
        self._worker = subprocess.Popen(get_child_arguments(), env=environment, start_new_session=True)

    def _stop(self) -> None:
        if self._worker is None:
            return
        # A short job may finish; then what runs is given back, which costs it nothing; then nothing is waited for.
        for number, patience in ((signal.SIGTERM, DRAIN_SECONDS), (signal.SIGTERM, PATIENCE_SECONDS)):
            self._worker.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._worker.wait(patience)
                return
        self._worker.send_signal(signal.SIGQUIT)
        self._worker.wait()

    def _pass_on(self, number: signal.Signals) -> None:
        if number == signal.SIGCHLD:
            return
        if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            self._stopping = True
        if self._worker is not None and self._worker.poll() is None:
            self._worker.send_signal(number)


def snapshot() -> dict[Path, int]:
    """Every Python file that the worker may have imported, and when it was changed."""
    return {path: path.stat().st_mtime_ns for path in set(_files()) if path.exists()}


def _files() -> Iterator[Path]:
    yield from iter_all_python_module_files()
    libraries = {Path(path).resolve() for path in sys.path if "site-packages" in path}
    for app in apps.get_app_configs():
        folder = Path(app.path).resolve()
        if not any(library in folder.parents for library in libraries):
            yield from folder.rglob("*.py")
