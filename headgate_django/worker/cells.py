"""The worker's side of processes that run one job each: the supervisor forks them, because it has no threads."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading

from headgate_django.core.outcomes import Claim
from headgate_django.worker.channel import Channel, Closed, Message
from headgate_django.worker.death import Death

START_SECONDS = 30.0
"""How long the supervisor may take to fork."""


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
        self.started = threading.Event()
        self.ended = threading.Event()

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

    def start(self, claim: Claim, memory_limit: int) -> Cell:
        """A fresh process, waiting for its claim. Raises NoCell."""
        ours, theirs = Channel.pair()
        output, printed = os.pipe()
        os.set_blocking(output, False)
        cell = Cell(next(self._numbers), ours, output)
        self._cells[cell.token] = cell
        order = {
            "t": "spawn",
            "token": cell.token,
            "job": claim.id,
            "fence": claim.fence,
            "memory_limit": memory_limit,
        }
        try:
            self._control.send(order, (theirs.fileno(), printed))
        except Closed:
            cell.trouble = "the supervisor is gone"
        finally:
            theirs.close()
            os.close(printed)
        if cell.trouble or not cell.started.wait(START_SECONDS) or cell.trouble:
            self.forget(cell)
            raise NoCell(cell.trouble or "the supervisor does not answer")
        return cell

    def kill(self, cell: Cell, because: str) -> None:
        """End the process and everything it started."""
        with contextlib.suppress(Closed):  # then it ends with the supervisor
            self._control.send({"t": "kill", "token": cell.token, "because": because})

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
            cell.ended.set()
