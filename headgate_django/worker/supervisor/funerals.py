"""Deaths on their way into the database. Nobody takes a dead process's place before its death is known there.

Else its successor might be given a sibling of the job that killed it, and not know that it is suspect.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from dataclasses import dataclass, field

from headgate_django.worker.supervisor.nursery import Nursery
from headgate_django.worker.supervisor.undertaker import Report

logger = logging.getLogger("headgate_django.worker")
RETRY_SECONDS = 1.0

PATIENCE_SECONDS = 2.0
"""How long a successor waits: a database in trouble must not keep the processes down."""

SECOND_LOOK_SECONDS = 1.0
"""A statement that the dead process had sent may be carried out after its death."""


@dataclass(eq=False)
class _Errand:
    report: Report
    is_second: bool = False
    since: float = field(default_factory=time.monotonic)
    due: float = 0.0
    postponed: bool = False


class Funerals:
    """The undertakers at work, and what is due later."""

    def __init__(self, nursery: Nursery, lease_ms: int) -> None:
        self._nursery = nursery
        self._lease = lease_ms / 1000
        self._at_work: dict[int, _Errand] = {}
        self._later: list[_Errand] = []

    def __len__(self) -> int:
        return len(self._at_work) + len(self._later)

    @property
    def awaited(self) -> bool:
        """Whether a death is not yet reported that successors wait for."""
        latest = time.monotonic() - PATIENCE_SECONDS
        return any(not one.is_second and latest < one.since for one in (*self._at_work.values(), *self._later))

    def hold(self, report: Report) -> None:
        """Report a death, by a process of its own."""
        self._send(_Errand(report))

    def ended(self, pid: int) -> bool:
        """One process has ended; whether it was an undertaker."""
        errand = self._at_work.pop(pid, None)
        if errand is not None and not errand.is_second:
            due = time.monotonic() + SECOND_LOOK_SECONDS
            self._later.append(_Errand(errand.report, is_second=True, due=due))
        return errand is not None

    def look_again(self) -> None:
        """Do what is due: second looks, and what could not be done before."""
        now = time.monotonic()
        due = [errand for errand in self._later if errand.due <= now]
        self._later = [errand for errand in self._later if errand.due > now]
        for errand in due:
            self._send(errand)

    def give_up(self) -> None:
        """There is no time left: the leases expire by themselves."""
        self._later.clear()
        for pid in self._at_work:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _send(self, errand: _Errand) -> None:
        try:
            self._at_work[self._nursery.start_undertaker(errand.report)] = errand
        except OSError as error:
            self._postpone(errand, error)

    def _postpone(self, errand: _Errand, error: OSError) -> None:
        """Room for a process may be there a moment later, and innocent jobs depend on it."""
        now = time.monotonic()
        if now - errand.since > self._lease:
            logger.error("cannot report a death: %s; the leases expire by themselves", error)
            return
        if not errand.postponed:
            logger.error("cannot report a death yet: %s; trying again", error)
        errand.postponed, errand.due = True, now + RETRY_SECONDS
        self._later.append(errand)
