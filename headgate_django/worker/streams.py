"""The standard streams, which may be closed, replaced, or read by nobody."""

from __future__ import annotations

import contextlib
import os
import sys


def fill_in() -> None:
    """Let those lead nowhere that were closed when the program was started.

    Else whatever is opened next, such as a connection, would get their numbers, and be written into.
    """
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        was_closed = _is_closed(fd)
        if was_closed:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            os.set_inheritable(fd, True)
        if getattr(sys, name) is None and name != "stdin":
            target = fd if was_closed else os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(target, "w", 1, errors="backslashreplace", closefd=not was_closed))


def flush() -> None:
    """Write out what is kept back, if it can be."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # an import or a handler may have replaced it by anything
            stream.flush()


def _is_closed(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return True
    return False
