"""Ctrl-C, SIGTERM and a closed terminal: noticed at the next wait, never in the middle of something."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupted(Exception):
    """Somebody asked the demo to stop."""


class Stop:
    """Whether to stop; a second request means at once."""

    def __init__(self, seconds: float | None) -> None:
        self.requests = 0
        self._end = None if seconds is None else time.monotonic() + seconds
        self._wake = threading.Event()

    def install(self) -> None:
        """Take the signals over."""
        for number in SIGNALS:
            signal.signal(number, self._receive)

    def wait(self, seconds: float) -> None:
        """Wait. Raises Interrupted when asked to stop, TimeoutError when the time of the whole run is over."""
        if self._end is not None and time.monotonic() > self._end:
            raise TimeoutError
        self._wake.wait(seconds)
        if self.requests:
            raise Interrupted

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.requests += 1
        self._wake.set()
