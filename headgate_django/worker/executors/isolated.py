"""Handlers in a process of their own: whatever becomes of it is an outcome of this one job."""

from __future__ import annotations

import contextlib
import os
import select
from dataclasses import replace

from headgate_django.core.outcomes import Failure, Outcome
from headgate_django.core.states import Event
from headgate_django.core.text import storable
from headgate_django.jobs import registry
from headgate_django.worker.cells import Cell, Cells, NoCell
from headgate_django.worker.channel import Closed, Message
from headgate_django.worker.executors import wire
from headgate_django.worker.overtime import cut_short
from headgate_django.worker.run import Run

OUTPUT_TAIL = 8_192
"""Bytes of what the process printed that are kept: the end."""

LOOK_SECONDS = 1.0

READS = 16
"""Pieces that are read of what may never end, before something else is looked at."""

MEMORY_LIMIT, TOO_MANY_PROCESSES, TIME_IS_UP = "memory limit", "too many processes", "time is up"


class IsolatedExecutor:
    """Runs one job at a time in each thread that calls ``perform``; the job itself runs elsewhere."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._open: dict[Run, Cell] = {}

    def perform(self, run: Run) -> Outcome:
        """Start a process, give it the claim, and see it through to its end."""
        handler = registry.find(run.claim.kind)
        try:
            cell = self._cells.start(run.claim, handler.memory_limit if handler else 0)
        except NoCell as error:
            return wire.not_isolated(error)
        conversation = _Conversation(run, cell, self._cells)
        try:
            conversation.begin()
            self._open[run] = cell
            # Who cancels or kills a run looks whether it is open afterwards; so one of us sees the other.
            return conversation.outcome()
        finally:
            self._open.pop(run, None)
            self._cells.forget(cell)

    def cancel(self, run: Run, interrupt: bool) -> None:
        """Ask the handler to stop; with ``interrupt``, raise Interrupted in it."""
        order = {"t": wire.CANCEL, "reason": run.context.cancel_reason, "interrupt": interrupt}
        self._tell(run, order)

    def dump(self, run: Run) -> None:
        """Ask where the handler is; the answer is logged when it comes."""
        self._tell(run, {"t": wire.DUMP})

    def kill(self, run: Run) -> None:
        """End it: its time is up, or the worker stops. Does not wait."""
        if cell := self._open.get(run):
            self._cells.kill(cell, TIME_IS_UP)

    def _tell(self, run: Run, message: Message) -> None:
        if cell := self._open.get(run):
            with contextlib.suppress(Closed):
                cell.channel.post(message)


class _Conversation:
    """Everything between the claim and the end of one cell."""

    def __init__(self, run: Run, cell: Cell, cells: Cells) -> None:
        self._run, self._cell, self._cells = run, cell, cells
        self._outcome: Outcome | None = None
        self._reads_output = True
        self._printed = bytearray()
        self._size = 0

    def begin(self) -> None:
        """Hand over the claim, unless the run was cancelled while its process was started."""
        if not self._run.context.cancelled:
            with contextlib.suppress(Closed):
                self._cell.channel.post({"t": wire.CLAIM, "claim": wire.pack_claim(self._run.claim)})

    def outcome(self) -> Outcome:
        """Hear the cell out, see it dead, and judge."""
        if self._run.context.cancelled:
            self._cells.kill(self._cell, TIME_IS_UP)
        with contextlib.suppress(Closed):
            while self._outcome is None and self._listen():
                pass
        self._cells.see_dead(self._cell)
        self._read_output()
        with contextlib.suppress(Closed):
            for _ in range(READS):  # it may have said so in the moment in which it ended, behind much else
                self._read_channel()
        outcome = self._outcome or self._post_mortem()
        return replace(outcome, logs=outcome.logs + self._tail())

    def _listen(self) -> bool:
        channel, output = self._cell.channel, self._cell.output
        # A process that outlived the cell, in a session of its own, may hold both open, and print, for ever.
        over = self._cells.has_ended(self._cell)
        poll = select.poll()  # not select, which refuses the numbers above 1,023 of a process with many files
        poll.register(channel, select.POLLIN | (select.POLLOUT if channel.congested else 0))
        if self._reads_output:
            poll.register(output, select.POLLIN)
        ready = dict(poll.poll(LOOK_SECONDS * 1000))
        if ready.get(channel.fileno(), 0) & select.POLLOUT:
            channel.flush()
        if ready.get(channel.fileno(), 0) & ~select.POLLOUT:
            self._read_channel()
        if output in ready:
            self._reads_output = self._read_output()  # False when the handler itself has closed it
        return not over

    def _read_channel(self) -> None:
        for message in self._cell.channel.receive_ready():
            self._hear(message)

    def _hear(self, message: Message) -> None:
        match message["t"]:
            case wire.OUTCOME:
                self._outcome = self._outcome or wire.unpack_outcome(message["outcome"])
            case wire.PROGRESS:
                self._run.context.progress(*message["value"])
            case wire.WEIGHT:
                self._run.context.report_weight(message["value"])

    def _read_output(self) -> bool:
        """Take what is there, within bounds: the pipe does not block. False at its end."""
        try:
            for _ in range(READS):
                data = os.read(self._cell.output, 65_536)
                if not data:
                    return False
                _pass_on(data)
                self._keep(data)
        except BlockingIOError:
            pass
        return True

    def _keep(self, data: bytes) -> None:
        self._printed += data
        self._size += len(data)
        del self._printed[:-OUTPUT_TAIL]

    def _tail(self) -> str:
        if not self._printed:
            return ""
        missing = self._size - len(self._printed)
        left_out = f"… {missing} bytes left out …\n" if missing else ""
        text = storable(self._printed.decode("utf-8", "backslashreplace"))
        return f"\n--- output ---\n{left_out}{text}"

    def _post_mortem(self) -> Outcome:
        """It ended without a word: killed for a limit, which is a failure, or dead, which is a crash."""
        death = self._cell.death
        if self._run.context.cancelled and (death is None or death.because == TIME_IS_UP):
            note = "it ignored that its time was up and was killed" if self._run.raised else ""
            return cut_short(self._run.claim, self._run.context, note)
        if death is None:
            failure = Failure(error_class="ProcessLost", message="its own process got lost", group="lost")
            return Outcome(event=Event.LOSE_LEASE, failure=failure)
        for limit, error_class in ((MEMORY_LIMIT, "MemoryError"), (TOO_MANY_PROCESSES, "TooManyProcesses")):
            if death.because.startswith(limit):
                failure = Failure(error_class=error_class, message=f"killed: {death.because}", group=limit)
                return Outcome(event=Event.RETRY, failure=failure)
        return Outcome(event=Event.LOSE_LEASE, failure=death.failure("its own process"))


def _pass_on(data: bytes) -> None:
    # What it logs belongs into the log of the service as well.
    with contextlib.suppress(OSError):
        os.write(2, data)
