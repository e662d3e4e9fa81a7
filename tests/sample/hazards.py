"""Handlers that do to a shared process what nobody should, each in its own way."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from headgate_django import Context, job
from tests.sample.models import Run, record

KEPT: list[Any] = []

CACHE = bytes(int(os.environ.get("HEADGATE_TEST_CACHE_MB", "0")) * 1024**2)
"""Memory that the application has asked for, and never touched."""


@job("sample:shares", backoff=lambda exception, attempt: 3600)
def shares(what: str, value: Any = None, *, context: Context) -> None:
    """Does one of many things in a process that it shares with others, on its first run only."""
    record(context, what)
    if context.crash_attempt == 0:
        SHARES[what](value, context)


def _leaves_a_copy(seconds: float, context: Context) -> None:
    """Forks as multiprocessing does: the copy holds everything that this process had open."""
    pid = os.fork()
    if pid == 0:
        time.sleep(seconds)
        os._exit(0)
    Run.objects.create(name="copy", job_id=context.job_id, pid=pid)
    time.sleep(seconds)


def _opens(count: int, context: Context) -> None:
    """As a server does that serves many."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, count * 2), most))
    KEPT.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(count))


def _opens_all(spare: int, context: Context) -> None:
    """Leaves ``spare`` descriptors for others."""
    while True:
        try:
            KEPT.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            break
    for _ in range(spare):
        os.close(KEPT.pop())


def _scribbles(value: Any, context: Context) -> None:
    """As one who closes descriptors that are not his own, and then writes into what has taken their numbers."""
    for fd in range(3, 32):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.write(fd, b"\xff" * 64)
    time.sleep(60)


def _hangs_up(value: Any, context: Context) -> None:
    """As a process that is dying: its descriptors are closed some time before it is dead."""
    sockets = []
    for fd in range(3, 64):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                sockets.append(fd)
    close = ctypes.PyDLL(None).close  # which keeps the lock of the interpreter: no other thread sees this
    sys.setswitchinterval(60)
    for fd in sockets:
        close(fd)
    os.kill(os.getpid(), signal.SIGSTOP)


def _fills(spare_mb: int, context: Context) -> None:
    """Leaves room for data, but not for the stack of one more thread."""
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + spare_mb * 1024**2
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _orphans(count: int, context: Context) -> None:
    """Starts programs whose parents end before they do."""
    for _ in range(count):
        subprocess.run(["sh", "-c", "sleep 0.3 & exit 0"], check=True)


SHARES = {
    "_exit": lambda value, context: os._exit(value),
    "copy": _leaves_a_copy,
    "fills": _fills,
    "hangs up": _hangs_up,
    "opens": _opens,
    "opens all": _opens_all,
    "orphans": _orphans,
    "scribbles": _scribbles,
}


@job("sample:limited", isolated=True, memory_limit="64MB", backoff=lambda exception, attempt: 3600)
def limited() -> None:
    """Needs no memory at all."""


@job("sample:hogs_loop", timeout=60)
async def hogs_loop(seconds: float, *, context: Context) -> None:
    """Blocks the event loop."""
    await Run.objects.acreate(name="hogs", job_id=context.job_id, pid=os.getpid())
    time.sleep(seconds)


@job("sample:waits_async", timeout=1, backoff=lambda exception, attempt: 3600)
async def waits_async(seconds: float) -> None:
    await asyncio.sleep(seconds)


@job("sample:upcasts", schema_version=2, timeout=1, backoff=lambda exception, attempt: 3600)
def upcasts() -> None:
    """Its upcaster takes longer than the job may."""


@upcasts.upcaster(1)
def _(arguments: dict[str, Any]) -> dict[str, Any]:
    for _ in range(6_000):
        time.sleep(0.01)
    return arguments
