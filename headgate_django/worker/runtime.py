"""The runtime loop of one worker process: admit, collect, ack, renew, beat; until asked to stop.

One thread and one connection of its own. Handlers run in the executors; no transaction is open while they do.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from django.db import DatabaseError, connections

from headgate_django.core.outcomes import Claim, Failure, Outcome
from headgate_django.core.states import Event
from headgate_django.gate.admit import Gate
from headgate_django.jobs.context import CancelReason
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.wakeup import Listener
from headgate_django.models.store import is_connection_trouble
from headgate_django.worker import runner
from headgate_django.worker.executors.loop import LoopExecutor
from headgate_django.worker.executors.threads import ThreadExecutor
from headgate_django.worker.heartbeat import Heartbeat, renew_leases
from headgate_django.worker.options import WorkerOptions
from headgate_django.worker.pace import Pace
from headgate_django.worker.run import Results, Run
from headgate_django.worker.shutdown import Shutdown
from headgate_django.worker.trouble import Trouble
from headgate_django.worker.wakeup import Wakeup

logger = logging.getLogger("headgate_django.worker")

FLUSH_SECONDS = 0.01
"""Longest time that a finished run waits for others to be acked with."""

INTERRUPT_GRACE_SECONDS = 1.0
"""How long handlers have to notice a shutdown before their leases are given back."""

LONGEST_BLIND_WAIT = 0.5
"""While the database is in trouble: how often timeouts and the end of the shutdown's time are looked at."""

LAST_TRIES = 5
"""How often the last outcomes are written while the database is in trouble; then the leases expire."""

INTERRUPTED = Outcome(
    event=Event.INTERRUPT,
    failure=Failure(error_class="Interrupted", message="given back by a worker that stopped", group="interrupt"),
)
UNSTORABLE = Failure(error_class="Unstorable", message="the error text could not be stored", group="unstorable")


class Runtime:
    """Runs jobs until it is asked to stop, or has nothing left to do in burst mode."""

    def __init__(self, options: WorkerOptions, shutdown: Shutdown, using: str) -> None:
        self._options = options
        self._shutdown = shutdown
        self._using = using
        self._wakeup = Wakeup(Listener(using, options.name))
        shutdown.on_wake(self._wakeup.set)
        self._gate = Gate(options.name, queues=options.queues, lease_ms=options.lease, using=using)
        self._results = Results(self._wakeup.set)
        self._threads = ThreadExecutor(options.threads, self._results)
        self._loop = LoopExecutor(self._results)
        self._heartbeat = Heartbeat(options, using)
        self._trouble = Trouble(using)
        self._pace = Pace(options)
        self._running: set[Run] = set()
        self._unacked: list[tuple[Run, Outcome]] = []
        self._admitted = 0
        self._stopping = False

    def serve(self) -> bool:
        """Work until the end; whether every handler has returned."""
        while not self._finished():
            self._note_shutdown()
            self._collect()
            self._keep_alive()
            self._enforce_timeouts()
            if self._trouble.guard("ack", self._flush) is not None:
                self._trouble.guard("admit", self._admit)
            self._wait()
        return self._stop()

    def _note_shutdown(self) -> None:
        if self._shutdown.requested and not self._stopping:
            self._stopping = True
            logger.info("stopping: %d running; a second signal gives them back at once", len(self._running))

    def _finished(self) -> bool:
        if self._shutdown.overdue:
            return True
        if self._running or self._unacked or len(self._results):
            return False
        return self._shutdown.requested or self._is_spent() or (self._options.burst and self._pace.dry)

    def _is_spent(self) -> bool:
        return 0 < self._options.max_jobs <= self._admitted

    def _free(self) -> int:
        if self._shutdown.requested:
            return 0
        free = self._options.threads - len(self._running)
        return min(free, self._options.max_jobs - self._admitted) if self._options.max_jobs else free

    def _collect(self) -> None:
        for run, outcome in self._results.take():
            self._running.discard(run)
            if not run.lost:
                self._unacked.append((run, outcome))

    def _flush(self) -> bool:
        if self._unacked:
            for claim in self._ack([(run.claim, outcome) for run, outcome in self._unacked]):
                logger.warning("job %s: its lease was lost before the run ended; the outcome is dropped", claim.id)
            self._unacked.clear()
            self._pace.hurry()  # under a limit that was full there may be a place now
        return True

    def _ack(self, results: list[tuple[Claim, Outcome]]) -> list[Claim]:
        try:
            return ack(results, using=self._using)
        except DatabaseError as error:
            if is_connection_trouble(error):
                raise
            if len(results) > 1:  # one unstorable outcome must not hold back the others
                return [claim for result in results for claim in self._ack([result])]
            [(claim, outcome)] = results
            logger.exception("the outcome of job %s cannot be stored as it is", claim.id)
            return ack([(claim, replace(outcome, failure=UNSTORABLE))], using=self._using)

    def _admit(self) -> None:
        free = self._free()
        if free < 1 or not self._pace.due:
            return
        claims = self._gate.admit(free)
        self._heartbeat.count_poll(len(claims))
        self._pace.admitted(len(claims))
        self._admitted += len(claims)
        for claim in claims:
            run = Run(claim)
            self._running.add(run)
            (self._loop if runner.is_async(claim) else self._threads).submit(run)

    def _keep_alive(self) -> None:
        if not self._pace.beat_due:
            return
        waiting = [run for run, _ in self._unacked]
        runs = [*self._running, *waiting]
        lost = self._trouble.guard("renew leases", lambda: renew_leases(runs, self._options.lease, self._using))
        if lost is None:
            return
        for run in lost:
            logger.warning("job %s: its lease was lost; the handler is asked to stop", run.claim.id)
            self._loop.cancel(run)
        status = "stopping" if self._shutdown.requested else "running"
        if self._trouble.guard("beat", lambda: self._heartbeat.beat(len(self._running), status)):
            self._pace.beaten()

    def _enforce_timeouts(self) -> None:
        for run in self._running:
            if run.overdue and not run.context.cancelled:
                run.context.cancel(CancelReason.TIMEOUT)
                self._loop.cancel(run)

    def _wait(self) -> None:
        self._results.expect(max(1, len(self._running)))
        if self._finished() or len(self._results) >= max(1, len(self._running)):
            return
        if self._trouble.pausing:
            self._wakeup.pause(min(self._trouble.pausing, LONGEST_BLIND_WAIT))
            return
        for_work = self._free() > 0 and not len(self._results)
        if for_work and self._pace.due and not self._trouble.floor:
            return
        timeout = max(self._until_next_step(), self._trouble.floor)
        heard = self._trouble.guard("listen", lambda: self._wakeup.wait(timeout, for_work=for_work))
        if heard is None:
            self._wakeup.pause(self._trouble.floor)
            return
        if heard.work:
            self._pace.wake()
        if heard.look:
            self._pace.beat_now()

    def _until_next_step(self) -> float:
        steps = [self._pace.until_next_beat]
        if self._free() > 0:
            steps.append(self._pace.until_next_poll)
        if len(self._results):
            steps.append(self._results.oldest + FLUSH_SECONDS - time.monotonic())
        if self._shutdown.requested:
            steps.append(self._shutdown.remaining)
        steps += [run.remaining for run in self._running if run.claim.timeout_ms and not run.context.cancelled]
        return max(0.0, min(steps))

    def _stop(self) -> bool:
        self._collect()
        if self._running:
            logger.warning("%d running jobs are given back", len(self._running))
            self._interrupt()
        idle = self._threads.close(0.1) and self._loop.close(0.1)
        for _ in range(LAST_TRIES):
            self._trouble.guard("ack", self._flush)
            if not self._unacked:
                break
            time.sleep(self._trouble.pausing)
        self._trouble.guard("leave", self._heartbeat.leave)
        connections[self._using].close()
        self._wakeup.close()
        return idle

    def _interrupt(self) -> None:
        for run in self._running:
            run.context.cancel(CancelReason.SHUTDOWN)
            self._loop.cancel(run)
        end = time.monotonic() + (0.0 if self._shutdown.forced else INTERRUPT_GRACE_SECONDS)
        while self._running and time.monotonic() < end:
            self._wakeup.pause(end - time.monotonic())
            self._collect()
        self._unacked += [(run, INTERRUPTED) for run in self._running if not run.lost]
