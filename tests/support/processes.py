"""Real processes: a worker of this test's database, started, watched by its output, and stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
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
            start_new_session=True,  # so that a signal to its group does not reach the tests
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

    def signal_group(self, number: int) -> None:
        os.killpg(self.pid, number)

    def children(self) -> list[int]:
        """The pids of its worker processes: not those that run one job, which have a session of their own."""
        return sorted(
            pid for pid, (parent, session) in _processes().items() if (parent, session) == (self.pid, self.pid)
        )

    def cells(self) -> list[int]:
        """The pids of its processes that run one job each."""
        return sorted(
            pid for pid, (parent, session) in _processes().items() if parent == self.pid and session == pid
        )

    def kill_tree(self) -> None:
        """What happens when the machine goes away."""
        doomed = [self.pid, *self.children(), *self.cells()]
        for pid in doomed:
            os.kill(pid, signal.SIGSTOP)
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """The exit code."""
        try:
            code = self.popen.wait(PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"it has not ended:\n{self.output}") from error
        self._reader.join(PATIENCE)
        return code

    def end(self) -> None:
        """Kill what is left."""
        if self.popen.poll() is None:
            self.kill_tree()
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


def _processes() -> dict[int, tuple[int, int]]:
    """Each living process: its parent and its session. Read from the kernel, as ``ps`` does."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if state != "Z":
                    found[int(entry.name)] = (int(parent), int(session))
    return found


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


def freeze(pid: int) -> None:
    """Stop a process when the database has done all that it was told, and nobody has to wait for it.

    A handler's own transaction may stay open: when ten looks have found one, it is taken for that.
    """
    for looks_left in range(10, -1, -1):
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: _state(pid) == "T", "stopped")
        if connection.vendor == "sqlite":
            wanted = _is_writable()
        else:
            wait_until(lambda: not _sessions("active"), "nothing is on its way")
            wanted = not looks_left or not _sessions("idle in transaction%")
        if wanted:
            return
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.02)
    raise AssertionError("it never lets go of SQLite's lock")


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _sessions(state: str) -> int:
    sql = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND state LIKE %s"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [state])
        return int(cursor.fetchone()[0])


def _is_writable() -> bool:
    with contextlib.closing(sqlite3.connect(connection.settings_dict["NAME"], timeout=0.5)) as own:
        try:
            own.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        return True
