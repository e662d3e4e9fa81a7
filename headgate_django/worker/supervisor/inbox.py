"""Signals as messages: noted at any moment, acted upon when the supervisor comes round."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

NAMES = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGTSTP", "SIGUSR1", "SIGUSR2", "SIGCHLD")


class Inbox:
    """A pipe that signals are written to. Nothing is lost before the first look."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._ends = [self._reader, self._writer]
        for end in self._ends:
            os.set_blocking(end, False)
        self._replaced: dict[int, Any] = {}
        self._wakeup_fd = -1

    def install(self) -> None:
        """Listen. Off the main thread, or where a signal does not exist, nothing is installed."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._wakeup_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for name in NAMES:
            number = getattr(signal, name, None)
            if number is not None:
                self._replaced[number] = signal.signal(number, _note)

    def uninstall(self) -> None:
        """Give the signals back. Once; a second call does nothing."""
        if self._replaced:
            signal.set_wakeup_fd(self._wakeup_fd)
        while self._replaced:
            signal.signal(*self._replaced.popitem())
        self._close()

    def forget(self) -> None:
        """In a forked child: signals do what they do in a fresh process, and no way leads to the parent's pipe."""
        signal.set_wakeup_fd(-1)
        for number in self._replaced:
            signal.signal(number, signal.SIG_DFL)
        self._close()

    def fileno(self) -> int:
        """For select."""
        return self._reader

    def take(self) -> list[signal.Signals]:
        """The signals since the last call, in their order; not those that only the project listens to."""
        try:
            return [signal.Signals(number) for number in os.read(self._reader, 4096) if number in self._replaced]
        except BlockingIOError:
            return []

    def _close(self) -> None:
        while self._ends:
            os.close(self._ends.pop())


def _note(number: int, frame: FrameType | None) -> None:
    """The interpreter has written the number into the pipe already."""
