"""The worker's side of processes that run one job each: the supervisor forks them, because it has no threads."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable

from headgate_django.core.outcomes import Claim
from headgate_django.worker.channel import Channel, Closed, Message
from headgate_django.worker.death import Death
from headgate_django.worker.sessions import end_session, living

START_SECONDS = 30.0
"""How long the supervisor may take to fork."""

EXIT_SECONDS = 5.0
"""How long a process may take to end after it has said how its run ended, or was killed."""

LOOK_SECONDS = 0.05
"""How often it is looked for when nobody reports its end."""


class NoCell(Exception):
    """The supervisor could not start a process for the job."""


class Cell:
    """One process, seen from the worker: a channel to it, what it prints, and how it ended."""

    def __init__(self, token: int, channel: Channel, output: int) -> None:
        self.token = token
        self.channel = channel
        self.output = output
        self.pid = 0
        self.death: Death | None = None
        self.trouble = ""
        self.doomed = False
        self.started = threading.Event()
        self.reported = threading.Event()
        """How it ended is known, or never will be."""

    def close(self) -> None:
        """Release the descriptors."""
        self.channel.close()
        os.close(self.output)


class Cells:
    """Starts and kills cells through the channel to the supervisor, which reports what became of them."""

    def __init__(self, control: Channel) -> None:
        self._control = control
        self._numbers = itertools.count(1)
        self._cells: dict[int, Cell] = {}
        self.orphaned = False

    def start(self, claim: Claim, memory_limit: int) -> Cell:
        """A fresh process, waiting for its claim. Raises NoCell."""
        try:
            cell = self._order(claim, memory_limit)
        except Closed:
            raise NoCell("the supervisor is gone") from None
        except OSError as error:  # no descriptors left: a handler of this process may hold them all
            raise NoCell(str(error)) from None
        if not cell.started.wait(START_SECONDS) or cell.trouble:
            self.forget(cell)
            raise NoCell(cell.trouble or "the supervisor does not answer")
        return cell

    def kill(self, cell: Cell, because: str) -> None:
        """End the process and everything it started. Does not wait."""
        cell.doomed = True
        try:
            self._control.post({"t": "kill", "token": cell.token, "because": because})
        except Closed:
            cell.channel.hang_up()  # who listens to it sees it dead

    def has_ended(self, cell: Cell) -> bool:
        """Whether the process is known to have ended."""
        return cell.reported.is_set() and not (self.orphaned and cell.pid in living(cell.pid))

    def see_dead(self, cell: Cell) -> None:
        """Wait until the process has ended; kill it when it does not."""
        if not cell.reported.wait(EXIT_SECONDS):
            self.kill(cell, "did not end")
            cell.reported.wait(EXIT_SECONDS)
        if self.orphaned and cell.death is None:
            # What the supervisor would do. A handler may be in C code, where it does not hear that it is to end.
            _wait(lambda: cell.doomed or cell.pid not in living(cell.pid))
            end_session(cell.pid)
            _wait(lambda: not living(cell.pid))

    def orphan(self) -> None:
        """The supervisor is gone: nobody reports any more how processes end."""
        self.orphaned = True
        for cell in list(self._cells.values()):
            cell.trouble = cell.trouble or "the supervisor is gone"
            if cell.doomed:  # the order may not have come through
                cell.channel.hang_up()
            cell.started.set()
            cell.reported.set()

    def forget(self, cell: Cell) -> None:
        """The run is over."""
        self._cells.pop(cell.token, None)
        cell.close()

    def hear(self, message: Message) -> None:
        """What the supervisor reports, on the thread that reads its channel."""
        cell = self._cells.get(message["token"])
        if cell is None:
            return
        if message["t"] == "spawned":
            cell.pid, cell.trouble = message["pid"], message["trouble"]
            cell.started.set()
        else:
            cell.death = Death(**message["death"])
            cell.reported.set()

    def _order(self, claim: Claim, memory_limit: int) -> Cell:
        with contextlib.ExitStack() as stack:
            ours, theirs = Channel.pair()
            stack.callback(theirs.close)
            undo = stack.enter_context(contextlib.ExitStack())
            undo.callback(ours.close)
            output, printed = os.pipe()
            stack.callback(os.close, printed)
            undo.callback(os.close, output)
            os.set_blocking(output, False)
            cell = Cell(next(self._numbers), ours, output)
            self._cells[cell.token] = cell
            undo.callback(self._cells.pop, cell.token)
            order = {"t": "spawn", "token": cell.token, "job": claim.id, "fence": claim.fence}
            self._control.post({**order, "memory_limit": memory_limit}, (theirs.fileno(), printed))
            undo.pop_all()
        return cell


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + EXIT_SECONDS
    while not condition() and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
