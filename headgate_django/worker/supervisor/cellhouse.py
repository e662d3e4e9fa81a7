"""The processes that run one job each: forked for a child that asks, watched, and reported back to it."""

from __future__ import annotations

import os
import time
from dataclasses import asdict

from headgate_django.lifecycle.fence import Held
from headgate_django.worker import memory
from headgate_django.worker.channel import Message
from headgate_django.worker.death import ORPHANED, Death
from headgate_django.worker.executors.isolated import MEMORY_LIMIT, TOO_MANY_PROCESSES
from headgate_django.worker.memory import megabytes
from headgate_django.worker.sessions import Session, end_session, sessions
from headgate_django.worker.supervisor.cell import CellProcess
from headgate_django.worker.supervisor.child import Child
from headgate_django.worker.supervisor.nursery import Nursery

WATCH_SECONDS = 0.1
"""How often the memory and the number of processes of cells are looked at."""

WATCH_SHARE = 10
"""How much longer than a look the pause after it is, at least."""

MAX_PROCESSES = 64
"""How many processes a job may have at a time, itself included."""


class CellHouse:
    """All cells of all children."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._owners: dict[int, tuple[Child, CellProcess]] = {}
        self._next_watch = 0.0

    def __len__(self) -> int:
        return len(self._owners)

    def pause(self, longest: float) -> float:
        """How long the supervisor may sleep."""
        return min(longest, WATCH_SECONDS) if self._owners else longest

    def start(self, child: Child, order: Message) -> None:
        """Fork one, and tell the child."""
        run = (order["job"], order["fence"])
        trouble, pid = "", 0
        if child.dead or len(order["fds"]) != 2:
            trouble = "the supervisor has no descriptors left"
            close(order)
            child.spared.append(run)
        else:
            try:
                end, output = order["fds"]
                pid = self._nursery.start_cell(end, output, order["memory_limit"])
            except OSError as error:
                trouble = str(error)
        if pid:
            one = CellProcess(pid, order["token"], run, order["memory_limit"], memory.rss(os.getpid()))
            child.cells[one.token] = one
            self._owners[pid] = (child, one)
        child.tell({"t": "spawned", "token": order["token"], "pid": pid, "trouble": trouble})

    def kill(self, child: Child, token: int, because: str) -> None:
        """End a cell that is still there."""
        one = child.cells.get(token)
        if one is not None:
            self._kill(one, because)

    def ended(self, pid: int, status: int, oom: bool) -> bool:
        """One process has ended; whether it was a cell."""
        if pid not in self._owners:
            return False
        child, one = self._owners.pop(pid)
        end_session(pid)  # what it has left behind
        child.cells.pop(one.token, None)
        death = Death.from_status(status, oom=oom and not one.because, because=one.because)
        if death.code in (0, ORPHANED) or one.because:  # it may notice that the child dies before we do
            child.spared.append(one.run)
        child.tell({"t": "exited", "token": one.token, "death": asdict(death)})
        return True

    def orphaned(self, child: Child) -> frozenset[Held]:
        """The child is gone, and so are its cells; the runs that did not kill it."""
        innocent = frozenset(one.run for one in child.cells.values()) | frozenset(child.spared)
        for one in list(child.cells.values()):
            self._kill(one, "its worker is gone")
        return innocent

    def enforce_limits(self) -> None:
        """Kill cells that use too much."""
        if not self._owners or time.monotonic() < self._next_watch:
            return
        began = time.monotonic()
        found = sessions()
        # On a machine with very many processes it takes its time, which others wait for.
        self._next_watch = time.monotonic() + max(WATCH_SECONDS, WATCH_SHARE * (time.monotonic() - began))
        for _, one in list(self._owners.values()):
            because = _excess(one, found.get(one.pid, Session()))
            if because and not one.because:
                self._kill(one, because)

    def _kill(self, one: CellProcess, because: str) -> None:
        one.because = one.because or because
        end_session(one.pid)


def close(order: Message) -> None:
    """Release the descriptors of an order that is not carried out."""
    for fd in order.get("fds", ()):
        os.close(fd)


def _excess(one: CellProcess, session: Session) -> str:
    if session.size > MAX_PROCESSES:
        return f"{TOO_MANY_PROCESSES}: more than {MAX_PROCESSES}"
    used = session.rss - one.baseline
    if 0 < one.memory_limit < used:
        return f"{MEMORY_LIMIT} of {megabytes(one.memory_limit)} passed: {megabytes(used)} used"
    return ""
