"""Signals as messages: noted at any moment, acted upon when the supervisor comes round."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from types import FrameType
from typing import Any

FROM_OUTSIDE = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGTSTP", "SIGUSR1", "SIGUSR2")
NAMES = (*FROM_OUTSIDE, "SIGCHLD")


class Inbox:
    """A list of signals, and a pipe that wakes whoever waits. Nothing is lost before the first look."""

    def __init__(self) -> None:
        self._noted: list[int] = []
        self._ends: list[int] = list(os.pipe()) if hasattr(os, "fork") else []  # elsewhere nobody waits
        for end in self._ends:
            os.set_blocking(end, False)
        self._replaced: dict[int, Any] = {}
        self._wakeup_fd = -1

    def install(self) -> None:
        """Listen; once more after something was imported that may have taken a signal for itself.

        Off the main thread, or where a signal does not exist, nothing is installed.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        if self._ends:
            before = signal.set_wakeup_fd(self._ends[1], warn_on_full_buffer=False)
            self._wakeup_fd = self._wakeup_fd if self._replaced else before
        for name in NAMES:
            number = getattr(signal, name, None)
            if number is not None:
                self._replaced.setdefault(number, signal.signal(number, self._note))

    def uninstall(self) -> None:
        """Give the signals back. Once; a second call does nothing."""
        if self._replaced and self._ends:
            signal.set_wakeup_fd(self._wakeup_fd)
        while self._replaced:
            signal.signal(*self._replaced.popitem())
        self._close()

    def retire(self) -> None:
        """At the end of the program: whoever goes on asking it to end must not change how it ends."""
        for number in self._replaced:
            signal.signal(number, signal.SIG_IGN)

    def forget(self) -> None:
        """In a forked child: signals do what they do in a fresh process, and no way leads to the parent's pipe."""
        signal.set_wakeup_fd(-1)
        for number in self._replaced:
            signal.signal(number, signal.SIG_DFL)
        self._close()

    def fileno(self) -> int:
        """For select."""
        return self._ends[0]

    def take(self) -> list[signal.Signals]:
        """The signals since the last call, in their order."""
        if self._ends:
            with contextlib.suppress(BlockingIOError):
                os.read(self._ends[0], 65_536)
        noted, self._noted = self._noted, []
        return [signal.Signals(number) for number in noted]

    def _close(self) -> None:
        while self._ends:
            os.close(self._ends.pop())

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted.append(number)
