"""Jobs that do nothing, or only tell when they began."""

import os
import time

from headgate_django import job
from headgate_django.models import clock
from headgate_django.models.store import alias

BALLAST = "BENCHMARK_BALLAST_MB"
"""How much memory the loaded application takes beyond its code."""

_ballast = b"x" * (int(os.environ.get(BALLAST, "0")) * 1024**2)


@job("bench:noop")
def noop(number: int) -> None:
    """Return at once."""


@job("bench:entry", retention=3_600)
def entry(path: str) -> None:
    """Append the store's time at which this began, in milliseconds."""
    _note(path)


@job("bench:isolated_entry", retention=3_600, isolated=True)
def isolated_entry(path: str) -> None:
    """The same in a process of its own."""
    _note(path)


def _note(path: str) -> None:
    entered = time.monotonic()
    now_ms = clock.now_ms(alias())  # a connection may have to be made for this: that does not count
    now_ms_at_entry = now_ms - (time.monotonic() - entered) * 1000
    with open(path, "a") as file:
        file.write(f"{now_ms_at_entry}\n")
