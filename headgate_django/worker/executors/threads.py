"""Synchronous handlers, each on a thread of its own while it runs."""

from __future__ import annotations

import logging
import queue
import threading
import time

from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import Event
from headgate_django.worker import hygiene, runner
from headgate_django.worker.failure import describe
from headgate_django.worker.run import Results, Run

logger = logging.getLogger("headgate_django.worker")


class ThreadExecutor:
    """A fixed number of daemon threads, started on demand."""

    def __init__(self, size: int, results: Results) -> None:
        self._size = size
        self._results = results
        self._inbox: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)

    def submit(self, run: Run) -> None:
        """Run on a free thread. The caller never submits more than ``size`` at a time."""
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._size:
            thread = threading.Thread(
                target=self._work, name=f"headgate-handler-{len(self._threads)}", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        self._inbox.put(run)

    def close(self, timeout: float) -> bool:
        """Let idle threads end; whether all of them did within ``timeout`` seconds."""
        for _ in self._threads:
            self._inbox.put(None)
        end = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        try:
            while (run := self._inbox.get()) is not None:
                self._results.put(run, _execute(run))
                self._idle.release()
        finally:
            hygiene.close_all()


def _execute(run: Run) -> Outcome:
    try:
        hygiene.before_job()
        outcome = runner.run(run.claim, run.context)
        hygiene.after_job()
    except BaseException as error:  # our own fault, or a connection that cannot even be closed
        logger.exception("job %s could not be run", run.claim.id)
        return Outcome(event=Event.RETRY, failure=describe(error))
    return outcome
