"""When to poll, renew and beat: the runtime's timers. Python's monotonic clock, which measures durations only."""

from __future__ import annotations

import random
import time

from headgate_django.worker.options import WorkerOptions

FIRST_PAUSE = 0.05
JITTER = 0.2
BEATS_PER_LEASE = 3
LONGEST_BEAT = 15.0
"""Seconds. However long the lease: who has not been heard of for a minute is taken for dead."""


class Pace:
    """Empty polls back off from 50 ms to the poll interval; work and wake-ups end the pause."""

    def __init__(self, options: WorkerOptions) -> None:
        self._longest = options.poll_interval / 1000
        self._beat_interval = min(LONGEST_BEAT, options.lease / 1000 / BEATS_PER_LEASE)
        self._next_poll = self._next_beat = 0.0
        self._pause = FIRST_PAUSE
        self._empty_rounds = 0
        self._burst = options.burst

    @property
    def due(self) -> bool:
        """Whether to ask the gate."""
        return time.monotonic() >= self._next_poll

    @property
    def beat_due(self) -> bool:
        """Whether to renew the leases and to beat."""
        return time.monotonic() >= self._next_beat

    @property
    def dry(self) -> bool:
        """Whether the gate had nothing until it had come round twice: the first round may have begun before."""
        return self._empty_rounds >= 2

    def admitted(self, count: int, *, came_round: bool) -> None:
        """Remember what an admit brought, and whether the gate has by now looked at everything once more."""
        if count:
            self.hurry()
            return
        self._empty_rounds += came_round
        self._next_poll = time.monotonic() + self._pause * (1 + JITTER * random.random())
        if came_round or not self._burst:  # who ends when nothing is left does not idle on the way round
            self._pause = min(self._longest, self._pause * 2)

    def hurry(self) -> None:
        """There may be work: ask the gate at once."""
        self._next_poll = 0.0
        self._pause = FIRST_PAUSE
        self._empty_rounds = 0

    def wake(self) -> None:
        """Something was heard: ask the gate once, at once. Without work the pauses grow on from where they were.

        On SQLite every commit of another connection is heard, a duty's or a heartbeat's too.
        """
        self._next_poll = 0.0

    def beat_now(self) -> None:
        """Renew and beat at once: there is news about the leases or the worker's row."""
        self._next_beat = 0.0

    def beaten(self) -> None:
        """Remember a beat."""
        self._next_beat = time.monotonic() + self._beat_interval

    @property
    def until_next_beat(self) -> float:
        """Seconds until the next beat; negative when it is late."""
        return self._next_beat - time.monotonic()

    @property
    def until_next_poll(self) -> float:
        """Seconds until the gate is asked again; negative when that is due."""
        return self._next_poll - time.monotonic()
