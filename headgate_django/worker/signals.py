"""The signals of a worker process: noted in its orders, at any moment."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from headgate_django.worker.orders import Orders


class Signals:
    """The signals of a worker process. Off the main thread, or where one does not exist, it is left out."""

    def __init__(self, orders: Orders, *, supervised: bool) -> None:
        self._orders = orders
        self._supervised = supervised
        self._replaced: dict[int, Any] = {}

    def install(self) -> None:
        """Listen; once more after something was imported that may have taken a signal for itself."""
        if threading.current_thread() is not threading.main_thread():
            return
        for name, action in self._actions().items():
            number = getattr(signal, name, None)
            if number is not None:
                self._replaced.setdefault(number, signal.signal(number, action))

    def uninstall(self) -> None:
        """Give the signals back: a worker may have run inside another program, such as a test."""
        while self._replaced:
            signal.signal(*self._replaced.popitem())

    def repeat(self, number: int) -> None:
        """Act upon a signal that came before."""
        if number in self._replaced:
            signal.raise_signal(number)

    def _actions(self) -> dict[str, Any]:
        actions: dict[str, Any] = {
            "SIGTERM": self._stop,
            "SIGINT": self._stop,
            "SIGBREAK": self._stop,
            "SIGTSTP": self._quiet,
            "SIGUSR1": self._quiet,
            "SIGUSR2": self._dump,
        }
        if self._supervised:  # the supervisor hears them too, and decides
            # Not SIG_IGN: programs that a job starts would inherit it.
            actions |= dict.fromkeys(("SIGHUP", "SIGQUIT"), lambda number, frame: None)
        return actions

    def _stop(self, number: int, frame: FrameType | None) -> None:
        # The supervisor gets the same signal and passes it on: twice is not twice as urgent here.
        if not self._supervised and self._orders.stopping:
            self._orders.stop_now()
        else:
            self._orders.stop(for_good=not self._supervised)

    def _quiet(self, number: int, frame: FrameType | None) -> None:
        self._orders.quiet()

    def _dump(self, number: int, frame: FrameType | None) -> None:
        self._orders.dump()
