"""Collects the processes that have ended, whoever started them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from headgate_django.worker import memory


class Reaper:
    """Knows as well whether the kernel has killed somebody for want of memory since it looked the last time."""

    def __init__(self) -> None:
        self._oom_kills = memory.oom_kills()

    def collect(self) -> Iterator[tuple[int, int, bool]]:
        """The pid and the status of each process that has ended, and whether memory has run out meanwhile."""
        oom_kills = memory.oom_kills()
        oom, self._oom_kills = oom_kills > self._oom_kills, oom_kills
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            yield pid, status, oom
