"""One handler per behaviour."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time

from headgate_django import Context, RateLimited, Retry, Revoke, Skip, Snooze, Undecodable, job
from headgate_django.models import clock
from tests.sample.models import Run


def record(context: Context, name: str = "") -> Run:
    return Run.objects.create(
        name=name or context.kind, job_id=context.job_id, attempt=context.attempt, pid=os.getpid()
    )


@job("sample:ok")
def ok(value: object = None) -> object:
    return value


@job("sample:recorded")
def recorded(name: str, context: Context) -> None:
    record(context, name)


@job("sample:fails", max_attempts=3)
def fails(message: str = "boom") -> None:
    raise ValueError(message)


@job("sample:flaky", max_attempts=5, backoff=lambda exception, attempt: 0)
def flaky(times: int, context: Context) -> None:
    record(context)
    if context.attempt <= times:
        raise ConnectionError("try again")


@job("sample:retries")
def retries(delay: float) -> None:
    raise Retry("later", delay=delay)


@job("sample:skips")
def skips() -> None:
    raise Skip("not worth it")


@job("sample:revokes")
def revokes() -> None:
    raise Revoke("never mind")


@job("sample:snoozes")
def snoozes(delay: float = 60) -> None:
    raise Snooze(delay, "not yet")


@job("sample:rate_limited")
def rate_limited(retry_after: float = 60) -> None:
    raise RateLimited(retry_after, "429")


@job("sample:undecodable")
def undecodable() -> None:
    raise Undecodable("made of cheese")


@job("sample:sleeps")
def sleeps(seconds: float, context: Context) -> None:
    run = record(context)
    time.sleep(seconds)
    run.finished = True
    run.save()


@job("sample:visits")
def visits(seconds: float, context: Context) -> None:
    run = record(context)
    run.entered_ms = clock.now_ms("default")
    run.save()
    time.sleep(seconds)
    run.left_ms = clock.now_ms("default")
    run.save()


@job("sample:waits")
def waits(context: Context, seconds: float = 60) -> None:
    record(context)
    if context.wait(seconds):
        raise Retry(context.cancel_reason)


@job("sample:heeds")
def heeds(context: Context) -> None:
    run = record(context)
    if context.wait(300):
        run.finished = True
        run.save()


@job("sample:heeds_async")
async def heeds_async(context: Context) -> None:
    run = await Run.objects.acreate(name=context.kind, job_id=context.job_id)
    try:
        await asyncio.sleep(300)
    except asyncio.CancelledError:
        run.finished = True
        await run.asave()
        raise


@job("sample:naps")
def naps(seconds: float) -> None:
    time.sleep(seconds)  # touches no database


@job("sample:asynchronous")
async def asynchronous(seconds: float = 0, *, context: Context) -> None:
    await asyncio.sleep(seconds)
    await Run.objects.acreate(name="async", job_id=context.job_id, pid=os.getpid())


@job("sample:dies")
def dies(context: Context) -> None:
    record(context)
    os._exit(17)


ANTIDOTE = "antidote"


@job("sample:poison", queue="poison")
def poison(context: Context) -> None:
    record(context)
    if not Run.objects.filter(name=ANTIDOTE).exists():
        os._exit(17)


@job("sample:versioned", schema_version=3)
def versioned(full_name: str, *, greeting: str) -> str:
    return f"{greeting} {full_name}"


@versioned.upcaster(1)
def _(arguments: dict) -> dict:
    return {"full_name": arguments["name"]}


@versioned.upcaster(2)
def _(arguments: dict) -> dict:
    return {**arguments, "greeting": "Hello"}


@job("sample:segfaults")
def segfaults(context: Context) -> None:
    record(context)
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(60)


@job("sample:once", backoff=lambda exception, attempt: 0)
def once(name: str, seconds: float, context: Context) -> None:
    """Leaves a row when it begins, and marks it when it has ended."""
    run = record(context, name)
    time.sleep(seconds)
    Run.objects.filter(pk=run.pk).update(finished=True)


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
    print("printed " + "x" * 20_000, flush=True)
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
