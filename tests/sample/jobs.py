"""One handler per behaviour."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time

from headgate_django import Context, RateLimited, Retry, Revoke, Skip, Snooze, Undecodable, job
from headgate_django.models import clock
from tests.sample.dangerous import (
    alone,
    alone_async,
    alone_async_does,
    grows,
    hog,
    segfaults,
    sleeps_alone,
    slow,
    slow_async,
    stubborn,
    stubborn_alone,
    stubborn_async,
)
from tests.sample.models import Run, record

__all__ = [
    "alone",
    "alone_async",
    "alone_async_does",
    "grows",
    "hog",
    "segfaults",
    "sleeps_alone",
    "slow",
    "slow_async",
    "stubborn",
    "stubborn_alone",
    "stubborn_async",
]


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


@job("sample:once", backoff=lambda exception, attempt: 0)
def once(name: str, seconds: float, context: Context) -> None:
    """Leaves a row when it begins, and marks it when it has ended."""
    run = record(context, name)
    time.sleep(seconds)
    Run.objects.filter(pk=run.pk).update(finished=True)


@job("sample:once_async")
async def once_async(name: str, seconds: float, *, context: Context) -> None:
    """The same on the event loop: its connection is open for as long as it lasts."""
    run = await Run.objects.acreate(name=name, job_id=context.job_id, pid=os.getpid())
    await asyncio.sleep(seconds)
    await Run.objects.filter(pk=run.pk).aupdate(finished=True)


def _wake_late(context: Context) -> None:
    number = context.crash_attempt + 1
    word = {1: "first", 2: "second"}[number]
    while not Run.objects.filter(name=f"wake the {word}").exists():
        time.sleep(0.02)
    if number == 1:
        context.progress(1, 2, "late")
    ok.enqueue(number)


@job("sample:wakes_late")
def wakes_late(context: Context) -> None:
    record(context)
    try:
        _wake_late(context)
    finally:
        if context.crash_attempt == 0:
            time.sleep(1.5)  # long enough for its progress to be written, were it still wanted
            Run.objects.create(name="first is done")


@job("sample:wakes_late_atomic", atomic=True)
def wakes_late_atomic(context: Context) -> None:
    _wake_late(context)


class _Stuck(logging.Handler):
    """A log server that does not answer: who waits for it cannot be interrupted, and holds the handler's lock."""

    def emit(self, record: logging.LogRecord) -> None:
        while True:
            with contextlib.suppress(BaseException):
                time.sleep(0.05)


audit = logging.getLogger("sample.audit")
audit.propagate = False
audit.addHandler(_Stuck())


@job("sample:audits", timeout=0.2, backoff=lambda exception, attempt: 3600)
def audits(context: Context) -> None:
    record(context)
    audit.warning("never written")


logger = logging.getLogger("sample")


def _log_and_fail(word: str) -> None:
    logger.warning("said %s", word)
    raise ValueError(word)


@job("sample:logs_and_fails", max_attempts=1)
def logs_and_fails(word: str) -> None:
    _log_and_fail(word)


@job("sample:logs_and_fails_alone", max_attempts=1, isolated=True)
def logs_and_fails_alone(word: str) -> None:
    _log_and_fail(word)


@job("sample:logs_and_fails_async", max_attempts=1)
async def logs_and_fails_async(word: str) -> None:
    await asyncio.sleep(0.1)
    _log_and_fail(word)


@job("sample:progresses")
def progresses(context: Context) -> None:
    context.progress(60, 120, "half")
    while not Run.objects.filter(name="go on").exists():
        time.sleep(0.02)


@job("sample:atomic", atomic=True)
def atomic(number: int, wait: bool = False, *, context: Context) -> None:
    """Writes, and fails for a negative number; in its first run it may wait to be killed."""
    Run.objects.create(name="effect", attempt=number)
    if wait and not context.crash_attempt:
        time.sleep(60)
    if number < 0:
        raise ValueError(number)


@job("sample:atomic_alone", atomic=True, isolated=True)
def atomic_alone(number: int, *, context: Context) -> None:
    Run.objects.create(name="effect", attempt=number)
    if number < 0:
        raise ValueError(number)


if "HEADGATE_TEST_TAKES_SIGNALS" in os.environ:  # as libraries do that think they are the whole program
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
