"""Handlers that harm the process they run in, or ignore that their time is up."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time

from headgate_django import Context, Retry, job
from tests.sample import hazards as hazards
from tests.sample.models import Run, record


@job("sample:segfaults")
def segfaults(context: Context) -> None:
    record(context)
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(60)


@job("sample:stubborn", timeout=1, backoff=lambda exception, attempt: 3600)
def stubborn(context: Context) -> None:
    """Ignores that its time is up."""
    record(context)
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.05)


@job("sample:stubborn_alone", timeout=1, isolated=True, backoff=lambda exception, attempt: 3600)
def stubborn_alone(context: Context) -> None:
    record(context)
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.05)


@job("sample:slow", timeout=1, backoff=lambda exception, attempt: 3600)
def slow(context: Context, seconds: float = 60) -> None:
    """Sleeps in small steps, so that it can be interrupted."""
    record(context)
    for _ in range(int(seconds * 100)):
        time.sleep(0.01)


@job("sample:slow_async", timeout=1, backoff=lambda exception, attempt: 3600)
async def slow_async(seconds: float = 60, *, context: Context) -> None:
    await asyncio.sleep(seconds)


@job("sample:alone", isolated=True)
def alone(what: str, value: object = None, *, context: Context) -> None:
    """Does one of many things in a process of its own."""
    record(context, what)
    ALONE[what](value, context)


def _hog(value, context):
    hoard = []
    while True:
        hoard.append(bytearray(8 * 1024 * 1024))
        time.sleep(0.02)


def _bomb(value, context):
    while True:
        with contextlib.suppress(OSError):
            os.fork()
        time.sleep(0.02)


def _talk(value, context):
    sys.stdout.write("printed " + "x" * 20_000 + "\n")
    sys.stdout.flush()
    os.write(2, b"written at the end\n")
    os._exit(0)


def _report(value, context):
    context.progress(7, 120, "rows")
    context.report_weight(3)
    time.sleep(value)


def _raise(value, context):
    raise ValueError("told from afar")


def _size(value, context):
    Run.objects.create(name=f"size {len(value)}")


def _leave_a_child(value, context):
    subprocess.Popen(["sleep", "1000"])


def _leave_a_daemon(value, context):
    """Leaves a copy in a session of its own, which has all descriptors and prints while anybody reads."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        with contextlib.suppress(OSError):
            while True:
                os.write(2, b"tick\n")
                time.sleep(0.1)
        os._exit(0)
    while os.getsid(pid) == os.getsid(0):
        time.sleep(0.01)
    os._exit(value)


def _start_a_group(value, context):
    program = subprocess.Popen(["sleep", "1000"], process_group=0)
    Run.objects.create(name="program", job_id=context.job_id, pid=program.pid)
    time.sleep(value)


def _hold_the_interpreter(value, context):
    ctypes.PyDLL(None).sleep(value)  # in C and with the lock, as a regular expression does


def _leave_zombies(value, context):
    for _ in range(value):
        if os.fork() == 0:
            os._exit(0)
    time.sleep(300)


def _lose_stdout(value, context):
    sys.stdout = None


def _lose_stderr(value, context):
    sys.stderr = None
    Run.objects.create(name="lost", job_id=context.job_id)
    for _ in range(value * 100):
        time.sleep(0.01)


ALONE = {
    "nothing": lambda value, context: None,
    "raise": _raise,
    "retry": lambda value, context: (_ for _ in ()).throw(Retry("later", delay=value)),
    "exit": lambda value, context: sys.exit(value),
    "_exit": lambda value, context: os._exit(value),
    "segfault": lambda value, context: os.kill(os.getpid(), signal.SIGSEGV),
    "kill": lambda value, context: os.kill(os.getpid(), signal.SIGKILL),
    "hog": _hog,
    "bomb": _bomb,
    "talk": _talk,
    "report": _report,
    "size": _size,
    "fork": lambda value, context: os.fork(),
    "leave": _leave_a_child,
    "daemon": _leave_a_daemon,
    "group": _start_a_group,
    "hold": _hold_the_interpreter,
    "zombies": _leave_zombies,
    "close stdout": lambda value, context: sys.stdout.close(),
    "lose stdout": _lose_stdout,
    "lose stderr": _lose_stderr,
    "sleep": lambda value, context: time.sleep(value),
}


@job("sample:hog", isolated=True, memory_limit="64MB")
def hog(context: Context) -> None:
    record(context)
    _hog(None, context)


@job("sample:alone_async", isolated=True)
async def alone_async(seconds: float, *, context: Context) -> None:
    await Run.objects.acreate(name="alone async", job_id=context.job_id, pid=os.getpid())
    await asyncio.sleep(seconds)


@job("sample:alone_async_does", isolated=True, timeout=4, backoff=lambda exception, attempt: 3600)
async def alone_async_does(what: str) -> None:
    """Harms the event loop of its process."""
    loop = asyncio.get_running_loop()
    if what == "leave a thread":
        loop.run_in_executor(None, time.sleep, 60)
    elif what == "exit in a task":
        task = asyncio.ensure_future(_exit())
        await asyncio.wait([task])
    elif what == "stop the loop":
        loop.stop()
    await asyncio.sleep(0.01)


async def _exit() -> None:
    sys.exit(3)


HOARD = []


@job("sample:grows")
def grows(megabytes: int, context: Context) -> None:
    record(context)
    HOARD.append(b"x" * megabytes * 1024 * 1024)


@job("sample:sleeps_alone", timeout=1, isolated=True, backoff=lambda exception, attempt: 3600)
def sleeps_alone() -> None:
    for _ in range(6000):
        time.sleep(0.01)


@job("sample:stubborn_async", timeout=1, backoff=lambda exception, attempt: 3600)
async def stubborn_async() -> None:
    while True:
        with contextlib.suppress(BaseException):
            await asyncio.sleep(0.05)
