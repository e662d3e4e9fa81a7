"""Real processes: a worker of this test's database, started, watched by its output, and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
"""Seconds after which a wait is given up: far beyond what a loaded machine needs."""


class Process:
    """A running command whose output is read as it comes."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.popen = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def wait_for_line(self, text: str) -> str:
        """The first line of output that contains ``text``."""
        end = time.monotonic() + PATIENCE
        with self._changed:
            while True:
                for line in self.lines:
                    if text in line:
                        return line
                if self.popen.poll() is not None or not self._changed.wait(end - time.monotonic()):
                    raise AssertionError(f"no line with {text!r}; exit code {self.popen.poll()}:\n{self.output}")

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def wait(self) -> int:
        """The exit code."""
        code = self.popen.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def end(self) -> None:
        """Kill what is left."""
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        self._reader.join(PATIENCE)
        assert self.popen.stdout is not None
        self.popen.stdout.close()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            with self._changed:
                self.lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


def environment(**variables: str) -> dict[str, str]:
    """The environment of a process that shares this test's database."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "HEADGATE_TEST_DB_NAME": str(connection.settings_dict["NAME"]),
        "PYTHONWARNINGS": "error",
        **variables,
    }


@contextmanager
def worker(*options: str, ready: bool = True, **variables: str) -> Iterator[Process]:
    """A real ``headgate_worker``; killed at the end if it still runs."""
    command = [sys.executable, "-m", "django", "headgate_worker", *options]
    process = Process(command, environment(**variables))
    try:
        if ready:
            process.wait_for_line("ready")
        yield process
    finally:
        process.end()


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Poll until ``condition`` holds; for what only another process can do."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"still not: {what}")
        time.sleep(0.02)


def terminate(process: Process) -> int:
    """Ask to stop; the exit code."""
    process.signal(signal.SIGTERM)
    return process.wait()
