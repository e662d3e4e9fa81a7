"""One worker process as its supervisor sees it."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from dataclasses import dataclass, field

from headgate_django.lifecycle.fence import Held
from headgate_django.worker.channel import Channel, Closed, Message
from headgate_django.worker.supervisor.cell import CellProcess

REMEMBERED = 1_000


@dataclass(eq=False)
class Child:
    """A running worker process. Times are Python's monotonic clock."""

    pid: int
    worker_id: str
    channel: Channel
    started: float = field(default_factory=time.monotonic)
    heard: float = field(default_factory=time.monotonic)
    entering: bool = False
    """Whether it has got as far as to ask the database, which may be away."""
    waited: float = 0.0
    """When it said the last time that the database is away."""
    ready_line: str = ""
    serving: bool = False
    rss: int = 0
    because: str = ""
    """Why the supervisor killed it, if it did."""
    farewell: int | None = None
    """The exit code with which it said to end in order: it holds nothing any more."""
    farewell_at: float = 0.0
    unwritten: bool = False
    """Whether it has left something behind that it could not write."""
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

    @property
    def kept_waiting(self) -> bool:
        """Whether it was killed because the database had not let it begin: then its end says nothing about it."""
        return self.entering and not self.ready and bool(self.because)

    def pulsed(self, *, serving: bool, waiting: bool) -> None:
        """It has given a sign of life."""
        self.serving = serving
        if waiting and not self.ready:
            self.waited = time.monotonic()

    def says_goodbye(self, code: int, *, unwritten: bool) -> None:
        """It has said that it ends in order."""
        self.farewell, self.farewell_at, self.unwritten = code, time.monotonic(), unwritten

    def tell(self, message: Message) -> None:
        """Send an order, without waiting for one that does not read; one that is gone will be reaped."""
        with contextlib.suppress(Closed):
            self.channel.post(message)

    def remind(self) -> None:
        """Send what it had no room for."""
        if self.channel.congested:
            with contextlib.suppress(Closed):
                self.channel.flush()
