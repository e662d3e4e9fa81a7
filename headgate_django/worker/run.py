"""One job in flight, and where finished ones are collected."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.jobs import registry
from headgate_django.jobs.context import CancelReason, Context
from headgate_django.worker.interrupt import Interruptible


class Place(Enum):
    """Where a handler runs."""

    THREAD = "thread"
    LOOP = "loop"
    CELL = "cell"
    """A process of its own."""


@dataclass(eq=False)
class Run:
    """A claim on its way through an executor. Times are Python's monotonic clock, for durations only."""

    claim: Claim
    place: Place = Place.THREAD
    context: Context = field(init=False)
    interruptible: Interruptible = field(default_factory=Interruptible)
    started: float = field(default_factory=time.monotonic)
    cancelled_at: float | None = None
    raised: bool = False
    lost: bool = False
    abandoned: bool = False
    """Its slot is written off: the handler ignores that its time is up."""

    def __post_init__(self) -> None:
        self.context = Context(self.claim)

    @cached_property
    def limit(self) -> tuple[float, CancelReason] | None:
        """When the run has to stop, and why; None if it may go on for ever.

        The deadline is an instant of the store's clock. What was left of it at the claim is measured from there.
        """
        limits = []
        if self.claim.timeout_ms:
            limits.append((self.started + self.claim.timeout_ms / 1000, CancelReason.TIMEOUT))
        if self.claim.deadline_ms:
            left_ms = self.claim.deadline_ms - self.claim.started_at_ms
            limits.append((self.started + left_ms / 1000, CancelReason.DEADLINE))
        return min(limits, default=None)


def place_of(claim: Claim, *, cells: bool) -> Place:
    """Where the claim's handler runs. What may have killed a worker runs alone, in a process of its own."""
    handler = registry.find(claim.kind)
    if handler is None:
        return Place.THREAD
    if cells and (handler.isolated or claim.suspect or claim.crash_attempt):
        return Place.CELL
    return Place.LOOP if handler.is_async else Place.THREAD


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
