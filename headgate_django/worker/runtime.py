"""The runtime loop of one worker process: admit, collect, ack, renew, beat; until told to stop.

One thread and one connection of its own. Handlers run in the executors; no transaction is open while they do.
"""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager

from django.db import connections

from headgate_django.core.outcomes import Failure, Outcome
from headgate_django.core.states import Event
from headgate_django.gate.admit import Gate
from headgate_django.jobs.context import CancelReason
from headgate_django.lifecycle.wakeup import Listener
from headgate_django.worker.acks import Acks
from headgate_django.worker.cells import Cells
from headgate_django.worker.door import Door
from headgate_django.worker.flight import Flight
from headgate_django.worker.heartbeat import Heartbeat, renew_leases
from headgate_django.worker.options import WorkerOptions
from headgate_django.worker.orders import Orders
from headgate_django.worker.overtime import Overtime, cut_short
from headgate_django.worker.pace import Pace
from headgate_django.worker.progress import ProgressReports
from headgate_django.worker.run import Run
from headgate_django.worker.trouble import Trouble
from headgate_django.worker.wakeup import Wakeup

logger = logging.getLogger("headgate_django.worker")

LONGEST_BLIND_WAIT = 1.0

FLUSH_SECONDS = 0.002
"""Longest time that a finished run waits for others to be acked with: enough for a batch of the shortest jobs, too
little for longer ones to miss the slot."""

INTERRUPT_GRACE_SECONDS = 1.0
"""How long handlers have to notice a shutdown before their leases are given back."""

KILL_SECONDS = 5.0
"""How long processes that run one job may take to end once they are killed."""

INTERRUPTED = Outcome(
    event=Event.INTERRUPT,
    failure=Failure(error_class="Interrupted", message="given back by a worker that stopped", group="interrupt"),
)


class Runtime:
    """Runs jobs until it is told to stop, or has nothing left to do in burst mode."""

    def __init__(
        self, options: WorkerOptions, worker_id: str, orders: Orders, cells: Cells | None, using: str
    ) -> None:
        self._options = options
        self._orders = orders
        self._using = using
        self._wakeup = Wakeup(Listener(using, worker_id, lock_ms=options.lease // 15))
        orders.on_wake(self._wakeup.set)
        gate = Gate(worker_id, queues=options.queues, lease_ms=options.lease, using=using, sticky=options.name)
        self._door = Door(gate, lambda: {run.claim.run_id for run in self._leased})
        self._flight = Flight(options.threads, self._wakeup.set, cells, using)
        self._overtime = Overtime(options.timeout_grace / 1000, self._flight.cancel, self._flight.kill)
        self._acks = Acks(using)
        self._progress = ProgressReports(using)
        self._heartbeat = Heartbeat(options, worker_id, using)
        self._trouble = Trouble(using)
        self._pace = Pace(options)
        self._admitted = 0
        self._said_stopping = False

    @property
    def is_serving(self) -> bool:
        """Whether it admits, and the database answers. Read by other threads."""
        return self._orders.admitting and not self._trouble.pausing

    def limited(self) -> AbstractContextManager[None]:
        """While it lasts, no statement of this thread waits for long for somebody else's lock."""
        return self._wakeup.limited()

    def register(self) -> None:
        """Enter the fleet's register. Raises a database error."""
        self._beat()
        self._pace.beaten()

    def serve(self) -> bool:
        """Work until the end; whether every handler has returned."""
        try:
            with self.limited():
                while not self._finished():
                    self._go_round()
                return self._stop()
        finally:
            connections[self._using].close()
            self._wakeup.close()

    def _go_round(self) -> None:
        self._note_orders()
        if self._flight.landed or self._until_flush <= 0:
            self._collect()
        self._keep_alive()
        self._enforce_limits()
        self._trouble.guard("write progress", lambda: self._progress.write(self._flight.running))
        if self._trouble.guard("ack", self._acks.flush):
            self._trouble.guard("admit", self._admit)
        self._wait()

    def _note_orders(self) -> None:
        if self._orders.stopping and not self._said_stopping:
            self._said_stopping = True
            logger.info("stopping: %d running; a second signal gives them back at once", len(self._flight.running))
            self._pace.beat_now()
        if self._orders.take_dump():
            self._flight.dump()

    def _finished(self) -> bool:
        if self._orders.overdue:
            return True
        if self._flight.running or len(self._acks) or len(self._flight.results):
            return False
        return self._orders.stopping or (self._options.burst and self._pace.dry)

    def _free(self) -> int:
        if not self._orders.admitting:
            return 0
        free = self._flight.free
        return min(free, self._options.max_jobs - self._admitted) if self._options.max_jobs else free

    def _collect(self) -> None:
        for run, outcome in self._flight.collect():
            self._progress.end(run)
            self._acks.add(run, outcome)
            self._pace.hurry()  # under a limit that was full there may be a place now

    def _admit(self) -> None:
        free = self._free()
        if free < 1 or not self._pace.due:
            return
        claims = self._door.admit(free)
        self._heartbeat.count_poll(len(claims))
        self._pace.admitted(len(claims), came_round=self._door.came_round)
        for claim in claims:
            self._flight.start(claim)
        self._admitted += len(claims)
        if 0 < self._options.max_jobs <= self._admitted:
            logger.info("%d jobs done: this process is replaced", self._admitted)
            self._orders.recycle()

    def _keep_alive(self) -> None:
        if not self._pace.beat_due:
            return
        lost = self._trouble.guard(
            "renew leases", lambda: renew_leases(self._leased, self._options.lease, self._using)
        )
        if lost is None:
            return
        for run in lost:
            logger.warning("job %s: its lease was lost; the handler is asked to stop", run.claim.id)
            self._overtime.lose(run)
        self._pace.beaten()  # whatever becomes of the row: the leases are renewed
        if self._trouble.guard("beat", self._beat):
            self._pace.beat_now()  # so that the register says what follows from it

    @property
    def _leased(self) -> list[Run]:
        """Runs whose ends are not written."""
        return [*self._flight.running, *self._acks.runs]

    def _beat(self) -> bool:
        """Write the row; whether a command waited in it."""
        command = self._heartbeat.beat(
            list(self._flight.running),
            status=self._orders.status,
            stuck=len(self._flight.stuck),
            wakeup=self._wakeup.mode,
        )
        if command is not None:
            logger.info("told through the register: %s", command)
            self._orders.obey(command)
            self._heartbeat.acknowledge(command)
        return command is not None

    def _enforce_limits(self) -> None:
        if self._overtime.until_next_step(self._flight.running) <= 0:
            self._collect()  # what has ended meanwhile is in time
        for run in self._overtime.enforce(self._flight.running):
            logger.error(
                "job %s (%s) is stuck: it goes on although its time is up; this process is replaced when the "
                "other jobs have finished",
                run.claim.id,
                run.claim.kind,
            )
            self._acks.add(run, cut_short(run.claim, run.context, "stuck: the handler did not stop"))
            self._flight.abandon(run)
            self._orders.recycle()

    def _wait(self) -> None:
        self._flight.results.expect(max(1, len(self._flight.running)))
        if self._finished() or self._flight.landed:
            return
        if self._trouble.pausing:
            # What needs no database goes on; all else waits for the end of the pause.
            steps = [self._trouble.pausing, self._overtime.until_next_step(self._flight.running)]
            self._wakeup.pause(min(*steps, self._orders.remaining, LONGEST_BLIND_WAIT))
            return
        for_work = self._free() > 0 and not len(self._flight.results)
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
        if len(self._flight.results) and not self._flight.landed:
            self._wakeup.pause(self._until_flush)  # the first of a batch has finished: wait for the others

    @property
    def _until_flush(self) -> float:
        return self._flight.results.oldest + FLUSH_SECONDS - time.monotonic()

    def _until_next_step(self) -> float:
        steps = [self._pace.until_next_beat, self._overtime.until_next_step(self._flight.running)]
        if self._free() > 0:
            steps.append(self._pace.until_next_poll)
        if len(self._flight.results):
            steps.append(self._until_flush)
        if self._flight.running:
            steps.append(self._progress.until_next)
        steps.append(self._orders.remaining)
        return max(0.0, min(steps))

    def _stop(self) -> bool:
        self._collect()
        if self._flight.running:
            logger.warning("%d running jobs are given back", len(self._flight.running))
            self._interrupt()
        idle = self._flight.close(0.1) and not self._flight.stuck
        self._acks.insist(self._trouble)
        self._trouble.guard("make sure of an admission", self._door.make_sure)
        self._orders.unwritten = len(self._acks) > 0 or self._door.is_unsure
        self._trouble.guard("leave", self._heartbeat.leave)
        return idle

    def _interrupt(self) -> None:
        for run in self._flight.running:
            run.context.cancel(CancelReason.SHUTDOWN)
            self._flight.cancel(run, True)
        end = time.monotonic() + (0.0 if self._orders.forced else INTERRUPT_GRACE_SECONDS)
        while self._flight.running and time.monotonic() < end:
            self._wakeup.pause(end - time.monotonic())
            self._collect()
        for run in self._flight.running:
            self._flight.kill(run)
        # Not before they are dead: whoever gets the job next must be the only one who runs it.
        end = time.monotonic() + KILL_SECONDS
        while self._flight.has_cells and time.monotonic() < end:
            self._wakeup.pause(end - time.monotonic())
            self._collect()
        for run in self._flight.running:
            self._acks.add(run, INTERRUPTED)
