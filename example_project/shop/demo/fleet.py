"""The processes of the demo: one worker command, which looks after its own processes, and the site."""

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

START_SECONDS, STOP_SECONDS = 40, 20
DEATH = re.compile(r"process \d+ \(.*\) died.*")
"""What the worker logs when one of its processes is gone."""
SITE_READY = r"development server at (http\S+)"
SITE_OPTIONS = ("--noreload", "--insecure")
"""One process without a reloader; static files also with DEBUG off."""


class ProcessFailed(Exception):
    """A process ended, or did not start, where it should have."""


class Process:
    """One ``manage.py`` command. Its output is read all the time, so that it never blocks on a full pipe."""

    def __init__(self, name: str, *arguments: str, ready: str = r"\bready\b", hurry: int = signal.SIGTERM) -> None:
        self.name = name
        self.ready_line = ""
        self._ready_pattern = ready
        self._hurry = hurry
        self.ready = threading.Event()
        self.output: deque[str] = deque(maxlen=40)
        self.deaths: deque[str] = deque()
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
        """The exit code; hurried when somebody is ``impatient``, killed when it is still there ``until`` then."""
        hurried = False
        while self.exit_code is None:
            if time.monotonic() > until:
                self._popen.kill()
            elif impatient() and not hurried:
                hurried = True
                self._popen.send_signal(self._hurry)
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
            if found := DEATH.search(line):
                self.deaths.append(found.group())
            if re.search(self._ready_pattern, line):
                self.ready_line = line
                self.ready.set()


class Fleet:
    """The worker and the site. Both stay until they are told to stop."""

    def __init__(self, stop: Stop, say: Callable[[str], None]) -> None:
        self._stop, self._say = stop, say
        self._running: dict[str, Process] = {}
        self.deaths = 0
        """Processes of the worker that a job has killed."""

    def start_worker(self, *options: str) -> None:
        """Start the worker and wait until all its processes serve."""
        worker = Process("worker", "headgate_worker", *options, hurry=signal.SIGQUIT)
        self._running["worker"] = worker
        worker.wait_until_ready(self._stop)
        self._say(f"worker (pid {worker.pid}): headgate_worker {' '.join(options)}")

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

    def look_after(self) -> None:
        """Tell which processes the worker has lost. Raises ProcessFailed when the worker or the site has ended."""
        for process in self._running.values():
            while process.deaths:
                self.deaths += 1
                self._say(f"{process.name}: {process.deaths.popleft()}")
            if process.exit_code is not None:
                raise ProcessFailed(process.report("ended"))

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
            may_just_end = process.name == "site" or not process.ready.is_set()
            if code != 0 and not (code == -signal.SIGTERM and may_just_end):
                problems.append(process.report("did not stop cleanly"))
        self._running.clear()
        return problems
