"""Synchronous handlers, each on a thread of its own while it runs."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable

from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import Event
from headgate_django.worker import hygiene, runner
from headgate_django.worker.failure import describe
from headgate_django.worker.overtime import cut_short
from headgate_django.worker.run import Results, Run

logger = logging.getLogger("headgate_django.worker")

END_SECONDS = 0.1
"""How long an idle thread is waited for; its connection may be to a server that does not answer."""

Perform = Callable[[Run], Outcome]


class ThreadExecutor:
    """Up to ``size`` daemon threads, started on demand. ``perform`` runs one job where it is called."""

    def __init__(self, size: int, results: Results, perform: Perform) -> None:
        self._size = size
        self._results = results
        self._perform = perform
        self._inbox: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._count = 0  # of threads that were not told to end
        self._ended = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._unfinished = 0
        self._said = False

    def submit(self, run: Run) -> None:
        """Run on a free thread. The caller never submits more than ``size`` at a time.

        Where no more threads can be started it waits for one of those that there are. Raises RuntimeError when
        there is none.
        """
        if self._unfinished >= self._count < self._size:
            self._start_thread()
        with self._lock:
            self._unfinished += 1
        self._inbox.put(run)

    def shrink(self, size: int) -> None:
        """Let idle threads end until no more than ``size`` are left. Waits until their connections are closed."""
        while self._count > max(size, self._unfinished):
            self._count -= 1
            self._inbox.put(None)
            self._ended.acquire(timeout=END_SECONDS)

    def close(self, timeout: float) -> bool:
        """Let idle threads end; whether all of them did within ``timeout`` seconds."""
        for _ in self._threads:
            self._inbox.put(None)
        end = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _start_thread(self) -> None:
        name = f"headgate-handler-{self._count}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if not self._count:
                raise
            if not self._said:
                self._said = True
                logger.error("cannot start a thread: %s; jobs wait for the others", error)
        else:
            self._threads = [*(each for each in self._threads if each.is_alive()), thread]
            self._count += 1

    def _work(self) -> None:
        try:
            while (run := self._inbox.get()) is not None:
                outcome = self._execute(run)
                with self._lock:
                    self._unfinished -= 1
                self._results.put(run, outcome)
        finally:
            hygiene.close_all()
            self._ended.release()

    def _execute(self, run: Run) -> Outcome:
        try:
            return self._perform(run)
        except BaseException as error:  # our own fault, or a connection that cannot even be closed
            logger.exception("job %s could not be run", run.claim.id)
            return Outcome(event=Event.RETRY, failure=describe(error))


def perform_here(run: Run, using: str) -> Outcome:
    """Run a handler on this thread, between two cleanings."""
    process = os.getpid()
    hygiene.before_job()
    outcome = run.interruptible.call(lambda: runner.run(run.claim, run.context, using))
    if os.getpid() != process:
        # The handler forked and this is its copy: it must touch neither the connections nor the results.
        os._exit(0)
    hygiene.after_job()
    return outcome or cut_short(run.claim, run.context)
