"""Asynchronous handlers, on one event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async

from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import Event
from headgate_django.worker import hygiene, runner
from headgate_django.worker.failure import describe
from headgate_django.worker.overtime import cut_short
from headgate_django.worker.run import Results, Run

logger = logging.getLogger("headgate_django.worker")


class LoopExecutor:
    """Runs each handler as a task, with a database thread of its own."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: dict[Run, asyncio.Task[Any]] = {}
        self._closing = False

    def submit(self, run: Run) -> None:
        """Start the handler on the loop, which is started on first use. Raises RuntimeError when it cannot be."""
        loop = self._ensure_loop()
        asyncio.run_coroutine_threadsafe(self._execute(run), loop)

    def cancel(self, run: Run) -> None:
        """Raise CancelledError inside the handler."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._cancel_task, run)

    def stack(self, run: Run) -> str:
        """Where the handler waits. Called from another thread: a snapshot that may be a moment old."""
        task = self._tasks.get(run)
        if task is None:
            return "(between two steps)"
        return "".join(_stack(task.get_coro()))

    def close(self, timeout: float) -> bool:
        """Stop the loop; whether it ended within ``timeout`` seconds."""
        if self._loop is None or self._thread is None:
            return True
        self._closing = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        self._loop.close()
        return True

    def _ensure_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=self._work, args=(loop,), name="headgate-loop", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                loop.close()
                raise
            self._loop, self._thread = loop, thread
        return self._loop

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        # A handler that stops the loop, or spawns a task that exits, must not take the others with it.
        while not self._closing:
            try:
                loop.run_forever()
            except BaseException:
                logger.exception("a task of a handler ended the event loop; it goes on for the others")

    def _cancel_task(self, run: Run) -> None:
        task = self._tasks.get(run)
        if task is not None:
            task.cancel()

    async def _execute(self, run: Run) -> None:
        try:
            # A task of its own, so that cancelling the handler never cancels the bookkeeping around it.
            self._tasks[run] = task = asyncio.ensure_future(_run(run))
            if run.context.cancelled:  # while the loop was busy; there was no task to cancel then
                task.cancel()
            outcome = await task
        except asyncio.CancelledError:  # before the handler was called
            outcome = cut_short(run.claim, run.context)
        except BaseException as error:
            logger.exception("job %s could not be run", run.claim.id)
            outcome = Outcome(event=Event.RETRY, failure=describe(error))
        finally:
            self._tasks.pop(run, None)
        self._results.put(run, outcome)


async def _run(run: Run) -> Outcome:
    # ORM calls of this handler share one thread, and no other handler's, so transactions do not mix.
    async with ThreadSensitiveContext():
        try:
            return await runner.arun(run.claim, run.context)
        finally:
            with contextlib.suppress(asyncio.CancelledError):  # too late: it has ended
                await sync_to_async(hygiene.close_all)()


def _stack(awaited: Any) -> Iterator[str]:
    # A task knows only its outermost frame while it waits; what it waits for is followed inwards.
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        yield f'  File "{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}\n'
        awaited = awaited.cr_await
