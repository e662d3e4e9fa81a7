"""When each duty is due next, and which are being performed. Shared by the threads of a worker's sweeper."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable

from headgate_django.duties.roster import Sweep


class Agenda:
    """Hands out each duty to one thread at a time. Python's monotonic clock, which measures durations only."""

    def __init__(self, sweeps: Iterable[Sweep]) -> None:
        self._lock = threading.Lock()
        self._due = {sweep: time.monotonic() + random.random() * sweep.interval for sweep in sweeps}

    def take(self) -> Sweep | None:
        """The duty that has been due longest; None while there is none. It is nobody else's until put back."""
        with self._lock:
            sweep = min(self._due, key=self._due.__getitem__, default=None)
            if sweep is None or self._due[sweep] > time.monotonic():
                return None
            del self._due[sweep]
            return sweep

    def put_back(self, sweep: Sweep, pause: float) -> None:
        """Due again in ``pause`` seconds, with jitter."""
        with self._lock:
            self._due[sweep] = time.monotonic() + pause * random.uniform(0.9, 1.1)

    @property
    def until_next(self) -> float | None:
        """Seconds until a duty is due that nobody performs; None when all are being performed."""
        with self._lock:
            return max(0.0, min(self._due.values()) - time.monotonic()) if self._due else None
