"""What handlers report of their progress, on its way into the database: at most once a second for all together."""

from __future__ import annotations

import time
from collections.abc import Iterable

from headgate_django.core.outcomes import Claim, Progress
from headgate_django.lifecycle.progress import write_progress
from headgate_django.worker.run import Run

INTERVAL = 1.0


class ProgressReports:
    """Collects the newest report of each run, and the last. Those between two writes are not stored."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._next = 0.0
        self._last: list[tuple[Claim, Progress]] = []

    @property
    def until_next(self) -> float:
        """Seconds until reports are looked at again."""
        return self._next - time.monotonic()

    def end(self, run: Run) -> None:
        """The run has ended: its last report is written at once, before its end is."""
        self._last += _reports([run])

    def write(self, runs: Iterable[Run]) -> bool:
        """Write what is new, unless that was done a moment ago, and what is last; True."""
        reports, self._last = self._last, []
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + INTERVAL
            reports += _reports(runs)
        if reports:
            write_progress(reports, using=self._using)
        return True


def _reports(runs: Iterable[Run]) -> list[tuple[Claim, Progress]]:
    return [
        (run.claim, progress)
        for run in list(runs)
        if not run.lost and (progress := run.context.take_progress()) is not None
    ]
