"""A worker as the gate sees it: free slots, and when it asks. The times are those of the real worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from headgate_django.core.allocation import Ledger
from headgate_django.core.walk import Cursor

FLUSH_MS = 2
"""Longest time that a finished run waits for others to be acked with; its slot is free after that."""

FIRST_PAUSE_MS, LONGEST_PAUSE_MS, JITTER = 50, 2_000, 0.2
"""Between two looks when there was nothing to take."""

NOTIFY_MS = 50
"""Shortest time between two notifications of a queue."""


@dataclass(kw_only=True, eq=False)
class Worker:
    """One process. ``looks_at_ms``: when it asks next; None while it waits for a run to end or a notification."""

    id: str
    threads: int
    served: Mapping[str, int]
    rng: Random
    ledger: Ledger = field(init=False)
    cursor: Cursor = field(default_factory=Cursor)
    looks_at_ms: int | None = None
    free: int = field(init=False)
    _pause_ms: float = FIRST_PAUSE_MS
    _not_before_ms: int = 0

    def __post_init__(self) -> None:
        self.ledger = Ledger(rng=Random(self.rng.random()))
        self.free = self.threads

    def ended(self, now_ms: int) -> int | None:
        """One of its runs has ended; when it asks, if that is sooner than it would have."""
        self.free += 1
        self._not_before_ms, self._pause_ms = 0, FIRST_PAUSE_MS
        return self._look(now_ms if self.free == self.threads else now_ms + FLUSH_MS)

    def notified(self, now_ms: int) -> int | None:
        """There is new work; when it asks, if that is sooner than it would have."""
        if not self.free:
            return None
        self._not_before_ms, self._pause_ms = 0, FIRST_PAUSE_MS
        return self._look(now_ms)

    def asked(self, got: int, done: bool, now_ms: int) -> int | None:
        """The gate has answered; when it asks next. ``done``: the gate has seen all streams."""
        self.free -= got
        self.looks_at_ms = None
        if got:
            self._not_before_ms, self._pause_ms = 0, FIRST_PAUSE_MS
        if not self.free:
            return None
        if got and not done:
            return self._look(now_ms + 1)
        self._not_before_ms = now_ms + round(self._pause_ms * (1 + JITTER * self.rng.random()))
        self._pause_ms = min(LONGEST_PAUSE_MS, 2 * self._pause_ms)
        return self._look(now_ms)

    def _look(self, at_ms: int) -> int | None:
        at_ms = max(at_ms, self._not_before_ms)
        if self.looks_at_ms is not None and self.looks_at_ms <= at_ms:
            return None
        self.looks_at_ms = at_ms
        return at_ms
