"""One worker process as its supervisor sees it, and the slot it fills."""

from __future__ import annotations

import contextlib
import random
import secrets
import time
from collections import deque
from dataclasses import dataclass, field

from headgate_django.lifecycle.settle import Held
from headgate_django.worker.channel import Channel, Closed, Message

LIVED = 10.0
"""Seconds after which a process that dies has not died young."""

REMEMBERED = 1_000

FIRST_PAUSE = 0.25
LONGEST_PAUSE = {True: 1.0, False: 30.0}
"""By whether it had begun to serve: what kills such a process is a job, and those are counted by themselves."""


@dataclass
class CellProcess:
    """A process that runs one job of a child."""

    pid: int
    token: int
    run: Held
    memory_limit: int
    baseline: int
    """What the loaded application takes in every process, in bytes."""
    because: str = ""


@dataclass(eq=False)
class Child:
    """A running worker process. Times are Python's monotonic clock."""

    pid: int
    worker_id: str
    channel: Channel
    started: float = field(default_factory=time.monotonic)
    heard: float = field(default_factory=time.monotonic)
    ready_line: str = ""
    serving: bool = False
    rss: int = 0
    because: str = ""
    """Why the supervisor killed it, if it did."""
    farewell: bool = False
    """Whether it has said that it ends in order."""
    dead: bool = False
    blameless: bool = False
    """Whether no job of it is to blame for its end."""
    recycling: bool = False
    cells: dict[int, CellProcess] = field(default_factory=dict)
    spared: deque[Held] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    """The latest runs that are not to blame for its end, whether or not their own end is written by now."""

    @property
    def ready(self) -> bool:
        """Whether it has begun to admit."""
        return bool(self.ready_line)

    def tell(self, message: Message) -> None:
        """Send an order, without waiting for one that does not read; one that is gone will be reaped."""
        with contextlib.suppress(Closed):
            self.channel.post(message)

    def remind(self) -> None:
        """Send what it had no room for."""
        if self.channel.congested:
            with contextlib.suppress(Closed):
                self.channel.flush()


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

    def replace_now(self) -> None:
        """The process ended in order, and wants a successor."""
        self.child = None
        self._not_before = 0.0

    def replace_after(self, child: Child) -> float:
        """The process died: the first time it is replaced at once, then after growing pauses; the pause."""
        self.child = None
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
