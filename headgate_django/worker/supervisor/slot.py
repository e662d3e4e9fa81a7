"""A place for one worker process, and how soon it is filled again."""

from __future__ import annotations

import random
import secrets
import time
from dataclasses import dataclass

from headgate_django.worker.supervisor.child import Child

LIVED = 10.0
"""Seconds after which a process that dies has not died young."""

FIRST_PAUSE = 0.25
LONGEST_PAUSE = {True: 1.0, False: 30.0}
"""By whether it had begun to serve: what kills such a process is a job, and those are counted by themselves."""


@dataclass(eq=False)
class Slot:
    """A place for one child, and how long to wait before it is filled again."""

    number: int
    child: Child | None = None
    done: bool = False
    """Its process ended because there was nothing left to do, or was told not to come back."""
    young_deaths: int = 0
    never_ready: int = 0
    quiet: bool = False
    """Whether its process was told to admit nothing: then whoever replaces it must not, either."""
    _not_before: float = 0.0

    def worker_id(self, name: str) -> str:
        """A new id in the fleet: each process has its own, whatever the number of its pid."""
        return f"{name}/{self.number}-{secrets.token_hex(3)}"

    @property
    def due(self) -> bool:
        """Whether a process should be started now."""
        return self.child is None and not self.done and time.monotonic() >= self._not_before

    @property
    def wait(self) -> float:
        """Seconds until the next start; infinite when none is waited for."""
        if self.child is not None or self.done:
            return float("inf")
        return max(0.0, self._not_before - time.monotonic())

    def postpone(self) -> None:
        """No process can be started now."""
        self._not_before = time.monotonic() + LONGEST_PAUSE[True]

    def leave(self, *, for_good: bool) -> None:
        """The process ended in order; unless it was ``for_good``, it wants a successor."""
        self.child, self.done = None, for_good
        self._not_before = 0.0

    def replace_after(self, child: Child) -> float:
        """The process died: the first time it is replaced at once, then after growing pauses; the pause."""
        self.child = None
        if not child.kept_waiting:
            self.never_ready = 0 if child.ready else self.never_ready + 1
        if child.ready and time.monotonic() - child.started > LIVED:
            self.young_deaths = 0
        pause = 0.0
        if self.young_deaths:
            longest = min(LONGEST_PAUSE[child.ready], FIRST_PAUSE * 2 ** min(self.young_deaths, 10))
            pause = longest * random.uniform(0.5, 1.0)
        self.young_deaths += 1
        self._not_before = time.monotonic() + pause
        return pause
