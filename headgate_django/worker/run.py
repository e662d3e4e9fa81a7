"""One job in flight, and where finished ones are collected."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.jobs.context import Context


@dataclass(eq=False)
class Run:
    """A claim on its way through an executor. ``started`` is Python's monotonic clock, for durations only."""

    claim: Claim
    context: Context = field(init=False)
    started: float = field(default_factory=time.monotonic)
    lost: bool = False

    def __post_init__(self) -> None:
        self.context = Context(self.claim)

    @property
    def remaining(self) -> float:
        """Seconds until the attempt has used up its timeout; meaningless without one."""
        return self.started + self.claim.timeout_ms / 1000 - time.monotonic()

    @property
    def overdue(self) -> bool:
        """Whether the attempt has used up its timeout."""
        return self.claim.timeout_ms > 0 and self.remaining <= 0


class Results:
    """Finished runs, put by executor threads and taken by the runtime in batches."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._finished: deque[tuple[Run, Outcome]] = deque()
        self._lock = threading.Lock()
        self._expected = 1
        self.oldest = 0.0

    def __len__(self) -> int:
        return len(self._finished)

    def expect(self, running: int) -> None:
        """How many runs are in flight: the runtime is woken when that many have finished."""
        self._expected = running

    def put(self, run: Run, outcome: Outcome) -> None:
        """Called by executors, from any thread."""
        with self._lock:
            self._finished.append((run, outcome))
            count = len(self._finished)
            if count == 1:
                self.oldest = time.monotonic()
        # The first one starts the runtime's flush timer; the last one ends it early.
        if count == 1 or count >= self._expected:
            self._wake()

    def take(self) -> list[tuple[Run, Outcome]]:
        """Everything finished so far."""
        with self._lock:
            finished, self._finished = list(self._finished), deque()
        return finished
