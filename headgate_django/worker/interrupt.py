"""Raise an exception inside a handler that runs in another thread: once, and never outside the handler."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from headgate_django.core.outcomes import Outcome
from headgate_django.exceptions import Interrupted


class Interruptible:
    """One call that another thread may cut short. CPython delivers between two bytecodes, so not inside C code."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._asked = False
        self._over = False

    @property
    def thread(self) -> int | None:
        """The thread in which the call is, if it is."""
        return self._thread

    def call(self, work: Callable[[], Outcome]) -> Outcome | None:
        """What ``work`` returns; None when it was cut short before it had returned."""
        outcome: Outcome | None = None
        try:
            self._enter()
            try:
                outcome = work()
            finally:
                self._leave()
        except Interrupted:
            # Asked for before it began, or delivered while ours was the code that ran. It is sent once, so this
            # cannot be cut short again.
            self._leave()
        return outcome

    def interrupt(self) -> bool:
        """Raise Interrupted in the thread; False when the call has ended or was interrupted before.

        A call that has not begun never will.
        """
        with self._lock:
            if self._over or self._asked:
                return False
            self._asked = True
            if self._thread is not None:
                _set_async_exception(self._thread, ctypes.py_object(Interrupted))
            return True

    def _enter(self) -> None:
        with self._lock:
            if self._asked:
                raise Interrupted
            self._thread = threading.get_ident()

    def _leave(self) -> None:
        with self._lock:
            if self._asked and self._thread is not None:
                _set_async_exception(self._thread, None)  # sent, but not delivered: it must not hit the next job
            self._thread, self._over = None, True


def _set_async_exception(thread: int, exception: ctypes.py_object[type[BaseException]] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)
