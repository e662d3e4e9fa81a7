"""Fork a child that starts clean and never returns into the parent's frames."""

from __future__ import annotations

import logging
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from headgate_django.worker import streams

FAILED = 70
"""Exit code of a child whose work raised (EX_SOFTWARE)."""


def fork(prepare: Callable[[], None], work: Callable[[], int]) -> int:
    """The pid of a child that does ``work`` and exits with what it returns. Raises OSError when there is no room.

    ``prepare`` runs first in the child, while signals are held back: it replaces the parent's handlers and closes
    the parent's descriptors, so a signal that arrives in between is the child's.
    """
    streams.flush()
    held_back = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _live(prepare, work, held_back)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held_back)


def _live(prepare: Callable[[], None], work: Callable[[], int], held_back: set[Any]) -> NoReturn:
    code = FAILED
    try:
        try:
            prepare()
            signal.pthread_sigmask(signal.SIG_SETMASK, held_back)
            code = work()
        except BaseException:
            traceback.print_exc()
        logging.shutdown()
        streams.flush()
    finally:
        os._exit(code)  # no way back, also when nobody reads any more, and no waiting for threads of a handler
