"""What handlers report of their progress, on its way into the database: at most once a second for all together."""

from __future__ import annotations

import time
from collections.abc import Iterable

from headgate_django.lifecycle.progress import write_progress
from headgate_django.worker.run import Run

INTERVAL = 1.0


class ProgressReports:
    """Collects the newest report of each run. Those between two writes are not stored."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._next = 0.0

    @property
    def until_next(self) -> float:
        """Seconds until reports are looked at again."""
        return self._next - time.monotonic()

    def write(self, runs: Iterable[Run]) -> bool:
        """Write what is new, unless that was done a moment ago; True."""
        if time.monotonic() < self._next:
            return True
        self._next = time.monotonic() + INTERVAL
        reports = [
            (run.claim, progress)
            for run in list(runs)
            if not run.lost and (progress := run.context.take_progress()) is not None
        ]
        if reports:
            write_progress(reports, using=self._using)
        return True
