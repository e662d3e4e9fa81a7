"""Deaths on their way into the database. Nobody takes a dead process's place before its death is known there.

Else its successor might be given a sibling of the job that killed it, and not know that it is suspect.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time

from headgate_django.worker.supervisor.nursery import Nursery
from headgate_django.worker.supervisor.undertaker import Report

logger = logging.getLogger("headgate_django.worker")

PATIENCE_SECONDS = 2.0
"""How long a successor waits: a database in trouble must not keep the processes down."""

SECOND_LOOK_SECONDS = 1.0
"""A statement that the dead process had sent may be carried out after its death."""


class Funerals:
    """The undertakers at work, and the second looks that are due later."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._first: dict[int, tuple[float, Report]] = {}
        self._second: set[int] = set()
        self._later: list[tuple[float, Report]] = []

    def __len__(self) -> int:
        return len(self._first) + len(self._second) + len(self._later)

    @property
    def awaited(self) -> bool:
        """Whether a death is being reported that successors wait for."""
        return any(time.monotonic() < since + PATIENCE_SECONDS for since, _ in self._first.values())

    def hold(self, report: Report) -> None:
        """Report a death, by a process of its own."""
        if pid := self._start(report):
            self._first[pid] = (time.monotonic(), report)

    def ended(self, pid: int) -> bool:
        """One process has ended; whether it was an undertaker."""
        if pid in self._first:
            _, report = self._first.pop(pid)
            self._later.append((time.monotonic() + SECOND_LOOK_SECONDS, report))
            return True
        found = pid in self._second
        self._second.discard(pid)
        return found

    def look_again(self) -> None:
        """Start the second looks that are due."""
        due = [report for at, report in self._later if at <= time.monotonic()]
        self._later = [one for one in self._later if one[1] not in due]
        self._second |= {pid for report in due if (pid := self._start(report))}

    def give_up(self) -> None:
        """There is no time left: the leases expire by themselves."""
        self._later.clear()
        for pid in (*self._first, *self._second):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _start(self, report: Report) -> int:
        try:
            return self._nursery.start_undertaker(report)
        except OSError as error:
            logger.error("cannot report a death: %s; the leases expire by themselves", error)
            return 0
