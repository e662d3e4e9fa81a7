"""Autoreload for development: a process that starts the worker afresh whenever a Python file changes."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import sysconfig
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from django.apps import apps
from django.utils.autoreload import get_child_arguments, iter_all_python_module_files

from headgate_django.worker.supervisor.inbox import Inbox

logger = logging.getLogger("headgate_django.worker")

RELOADED = "HEADGATE_RELOADED"
"""Set in the environment of the worker that is started afresh."""

LOOK_SECONDS = 1.0

URGES = ((0.0, signal.SIGTERM), (1.0, signal.SIGTERM), (16.0, signal.SIGQUIT))
"""After so many seconds: finish; give back what still runs, which costs it nothing; end at once."""

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class Reloader:
    """Stops the worker in order, so that no run is lost or counted as a crash, and starts it again.

    What a change breaks shows as the worker's own traceback; the next change is waited for.
    """

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._worker: subprocess.Popen[bytes] | None = None
        self._urges: deque[tuple[float, signal.Signals]] = deque()
        self._restarting = False
        self._stopping = False

    def run(self) -> int:
        """Until a signal asks to stop; the worker's exit code."""
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
            self._urges.extend((now + wait, number) for wait, number in URGES)
        self._restarting = True

    def _urge(self) -> None:
        while self._urges and time.monotonic() >= self._urges[0][0]:
            self._send(self._urges.popleft()[1])

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
        if number == signal.SIGCHLD:
            return
        if number in STOPPING:
            self._stopping = True
            self._restarting = False
            self._urges.clear()
        self._send(number)

    def _send(self, number: signal.Signals) -> None:
        if self._worker is not None and self._worker.poll() is None:
            self._worker.send_signal(number)


def snapshot(modules: Iterable[Path]) -> dict[Path, int]:
    """When each of these files was changed, and every other Python file that the worker may import as its own."""
    found = {}
    for path in {*modules, *_own_files()}:
        with contextlib.suppress(OSError):  # saved by an editor that puts a new file in its place
            found[path] = path.stat().st_mtime_ns
    return found


def _own_files() -> Iterator[Path]:
    """The modules and packages in the places of ``sys.path`` that hold no libraries, and the installed apps."""
    folders = {Path(app.path).resolve() for app in apps.get_app_configs()}
    for root in {Path(path).resolve() for path in sys.path}:
        if root.is_dir() and not _is_library(root):
            yield from root.glob("*.py")
            folders |= {marker.parent for marker in root.glob("*/__init__.py")}
    for folder in folders:
        if not _is_library(folder):
            for parent, _, names in os.walk(folder):
                yield from (Path(parent, name) for name in names if name.endswith(".py"))


def _is_library(folder: Path) -> bool:
    paths = sysconfig.get_paths()
    libraries = [Path(paths[name]).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return any(folder.is_relative_to(library) for library in libraries) or "site-packages" in folder.parts
