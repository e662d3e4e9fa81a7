"""The inside of a process that runs one job: forked from a loaded supervisor, without a connection or a thread."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import sys
import threading
import traceback
from typing import NoReturn

from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.jobs import registry
from headgate_django.jobs.context import CancelReason, Context
from headgate_django.worker import hygiene, runner, streams
from headgate_django.worker.channel import Channel, Closed, Message
from headgate_django.worker.death import ORPHANED
from headgate_django.worker.executors import wire
from headgate_django.worker.interrupt import Interruptible
from headgate_django.worker.overtime import cut_short
from headgate_django.worker.sessions import end_others

logger = logging.getLogger("headgate_django.worker")


def serve(channel: Channel, output: int, memory_limit: int, using: str) -> None:
    """Run the one job that comes through the channel, and answer with its outcome."""
    process = os.getpid()
    try:
        outcome = _outcome(channel, output, memory_limit, using)
        if os.getpid() != process:
            os._exit(0)  # the handler forked, and this is the copy
        _tidy_up()
        channel.send({"t": wire.OUTCOME, "outcome": wire.pack_outcome(outcome)})
    except Closed:
        _end()


def _outcome(channel: Channel, output: int, memory_limit: int, using: str) -> Outcome:
    try:
        _own_output(output)
        claim = wire.unpack_claim(channel.receive()["claim"])
        context = Context(claim, report=lambda kind, value: channel.send({"t": kind, "value": value}))
        handler = registry.find(claim.kind)
        job = (_AsyncJob if handler is not None and handler.is_async else _SyncJob)(claim, context)
        threading.Thread(target=_obey, args=(channel, job), name="headgate-cell", daemon=True).start()
        _limit_memory(memory_limit)  # at last: all of ours is there
    except Closed:
        raise
    except Exception as error:
        return wire.not_isolated(error)
    return job.run(using)


class _SyncJob:
    """The main thread runs the handler."""

    def __init__(self, claim: Claim, context: Context) -> None:
        self.claim, self.context = claim, context
        self._interruptible = Interruptible()

    def run(self, using: str) -> Outcome:
        outcome = self._interruptible.call(lambda: runner.run(self.claim, self.context, using))
        return outcome or cut_short(self.claim, self.context)

    def cancel(self, interrupt: bool) -> None:
        if interrupt:
            self._interruptible.interrupt()


class _AsyncJob:
    """The main thread runs an event loop, which ends with the process: what the handler has left there is over."""

    def __init__(self, claim: Claim, context: Context) -> None:
        self.claim, self.context = claim, context
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[Outcome] | None = None

    def run(self, using: str) -> Outcome:
        self._task = task = self._loop.create_task(runner.arun(self.claim, self.context))
        task.add_done_callback(lambda _: self._loop.stop())
        if self.context.cancelled:  # before there was a task to cancel
            task.cancel()
        while not task.done():
            try:
                self._loop.run_forever()
            except BaseException:
                logger.exception("a task of the handler ended the event loop; it goes on")
        try:
            return task.result()
        except asyncio.CancelledError:  # before the handler was called
            return cut_short(self.claim, self.context)

    def cancel(self, interrupt: bool) -> None:
        self._loop.call_soon_threadsafe(self._cancel_task)

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _obey(channel: Channel, job: _SyncJob | _AsyncJob) -> None:
    """Hear the worker; when it is gone, so is this process and all that it started."""
    with contextlib.suppress(Closed):
        while True:
            _do(channel.receive(), job)
    channel.close()  # one descriptor is needed to look for the others
    _end()


def _end() -> NoReturn:
    """Nobody is there to take the outcome. Not by a signal, for which the job would be blamed."""
    _print("the channel to the worker is closed\n")
    end_others()
    os._exit(ORPHANED)


def _do(message: Message, job: _SyncJob | _AsyncJob) -> None:
    if message["t"] == wire.DUMP:
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        _print("".join(traceback.format_stack(frame)))
        return
    job.context.cancel(CancelReason(message["reason"]))
    job.cancel(message["interrupt"])


def _print(text: str) -> None:
    # Not into sys.stderr, with which the handler may have done anything.
    with contextlib.suppress(OSError):
        os.write(2, text.encode("utf-8", "backslashreplace"))


def _tidy_up() -> None:
    # The outcome is known: nothing that happens here may change it.
    for step in (streams.flush, hygiene.after_job, hygiene.close_all):
        with contextlib.suppress(BaseException):
            step()


def _own_output(output: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nowhere, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nowhere)
    os.close(output)
    faulthandler.enable(2)  # a segmentation fault says where, in the output that is kept


def _limit_memory(limit: int) -> None:
    # The supervisor kills above the limit, ten times a second. What could not be seen in time is refused here.
    if not limit:
        return
    import resource

    from headgate_django.worker import memory

    if used := memory.data(os.getpid()):
        ceiling = used + 2 * limit
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (ceiling, ceiling))
