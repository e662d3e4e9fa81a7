"""The processes of the demo: workers that are started again when a job has killed them, and the site."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable

from django.conf import settings

from example_project.shop.demo.stop import Stop

MAX_RESTARTS = 50
START_SECONDS, STOP_SECONDS = 40, 12
SITE_READY = r"development server at (http\S+)"
SITE_OPTIONS = ("--noreload", "--insecure")
"""One process without a reloader; static files also with DEBUG off."""


class ProcessFailed(Exception):
    """A process ended, or did not start, where it should have."""


class Process:
    """One ``manage.py`` command. Its output is read all the time, so that it never blocks on a full pipe."""

    def __init__(self, name: str, *arguments: str, ready: str = r"\bready\b") -> None:
        self.name = name
        self.ready_line = ""
        self._ready_pattern = ready
        self.ready = threading.Event()
        self.output: deque[str] = deque(maxlen=40)
        # In a session of its own, so that Ctrl-C reaches the demo alone, which then stops them in order.
        self._popen = subprocess.Popen(
            [sys.executable, "-u", str(settings.BASE_DIR / "manage.py"), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._popen.poll()

    def wait_until_ready(self, stop: Stop) -> None:
        """Wait for the line that says so. Raises ProcessFailed, with its last output, when it does not come."""
        end = time.monotonic() + START_SECONDS
        while not self.ready.is_set():
            if self.exit_code is not None or time.monotonic() > end:
                raise ProcessFailed(self.report("did not start"))
            stop.wait(0.05)

    def ask_to_stop(self) -> None:
        """Send SIGTERM."""
        if self.exit_code is None:
            self._popen.terminate()

    def wait(self, until: float, impatient: Callable[[], bool]) -> int:
        """The exit code; killed when it is still there ``until`` then, or when somebody is ``impatient``."""
        while self.exit_code is None:
            if time.monotonic() > until or impatient():
                self._popen.kill()
            try:
                self._popen.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        self._reader.join(1)
        return self._popen.returncode

    def report(self, problem: str) -> str:
        """A message with the last lines of the output."""
        self._reader.join(1)
        tail = "".join(f"\n    {line}" for line in self.output)
        return f"{self.name} {problem} (exit code {self.exit_code}){tail}"

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            self.output.append(line.rstrip())
            if re.search(self._ready_pattern, line):
                self.ready_line = line
                self.ready.set()


class Fleet:
    """Named processes; workers among them are restarted when they die."""

    def __init__(self, stop: Stop, say: Callable[[str], None]) -> None:
        self._stop, self._say = stop, say
        self._workers: dict[str, tuple[str, ...]] = {}
        self._running: dict[str, Process] = {}
        self.restarts = 0

    def start_worker(self, name: str, *options: str) -> None:
        """Start a worker and wait until it serves."""
        self._workers[name] = options
        process = self._run_worker(name)
        process.wait_until_ready(self._stop)
        self._say(f"{process.name} (pid {process.pid}): headgate_worker {' '.join(options)}")

    def start_site(self, host: str, port: int) -> str:
        """Start the web site and wait until it listens; its address. A port in use is replaced by another."""
        site = Process("site", "runserver", f"{host}:{port}", *SITE_OPTIONS, ready=SITE_READY)
        self._running["site"] = site
        try:
            site.wait_until_ready(self._stop)
        except ProcessFailed as error:
            if port and "already in use" in str(error):
                return self.start_site(host, 0)
            raise
        address = re.findall(SITE_READY, site.ready_line)[0]
        self._say(f"site (pid {site.pid}): {address}")
        return address.rstrip("/")

    def tend(self) -> None:
        """Start dead workers again. Raises ProcessFailed when one does not get as far as serving."""
        for name, process in list(self._running.items()):
            if process.exit_code is None:
                continue
            if name not in self._workers or not process.ready.is_set() or self.restarts >= MAX_RESTARTS:
                raise ProcessFailed(process.report("ended"))
            self.restarts += 1
            pid = self._run_worker(name).pid
            self._say(f"{name} was killed by a job (exit code {process.exit_code}); started again (pid {pid})")

    def shut_down(self) -> list[str]:
        """Stop all; what did not stop cleanly. Nothing is left running, whatever happens."""
        alive = [process for process in self._running.values() if process.exit_code is None]
        for process in alive:
            process.ask_to_stop()
        until = time.monotonic() + STOP_SECONDS
        asked = self._stop.requests
        problems = []
        for process in alive:
            code = process.wait(until, lambda: self._stop.requests > asked)
            # A site has nothing to finish and just ends, and so does a worker that has not begun.
            may_just_end = process.name not in self._workers or not process.ready.is_set()
            if code != 0 and not (code == -signal.SIGTERM and may_just_end):
                problems.append(process.report("did not stop cleanly"))
        self._running.clear()
        return problems

    def _run_worker(self, name: str) -> Process:
        self._running[name] = Process(name, "headgate_worker", *self._workers[name])
        return self._running[name]
