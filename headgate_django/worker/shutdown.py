"""Stopping: what was asked for, and the signals that ask."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

SIGNALS = ("SIGTERM", "SIGINT")


class Shutdown:
    """Draining after the first request; at once after the second, or when the time is up."""

    def __init__(self, timeout: float, wake: Callable[[], None] = lambda: None) -> None:
        self._timeout = timeout
        self._wake = wake
        self._requested_at: float | None = None
        self._forced = False
        self._replaced: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether to stop admitting, and to end when nothing runs."""
        return self._requested_at is not None

    @property
    def overdue(self) -> bool:
        """Whether to give back what still runs, now."""
        return self.requested and (self._forced or self.remaining <= 0)

    @property
    def remaining(self) -> float:
        """Seconds until what still runs is given back; the whole timeout while no stop is asked for."""
        if self._requested_at is None:
            return self._timeout
        return self._requested_at + self._timeout - time.monotonic()

    @property
    def forced(self) -> bool:
        """Whether somebody asked twice."""
        return self._forced

    def request(self) -> None:
        """Ask to stop; asking again means at once."""
        if self._requested_at is None:
            self._requested_at = time.monotonic()
        else:
            self._forced = True
        self._wake()

    def on_wake(self, wake: Callable[[], None]) -> None:
        """Whom to wake when a stop is asked for."""
        self._wake = wake

    def install(self) -> None:
        """Listen to TERM and INT. Off the main thread, or where a signal does not exist, nothing is installed."""
        if threading.current_thread() is not threading.main_thread():
            return
        for name in SIGNALS:
            number = getattr(signal, name, None)
            if number is not None:
                self._replaced[number] = signal.signal(number, self._on_signal)

    def uninstall(self) -> None:
        """Give the signals back: a worker may have run inside another program, such as a test."""
        while self._replaced:
            signal.signal(*self._replaced.popitem())

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.request()
