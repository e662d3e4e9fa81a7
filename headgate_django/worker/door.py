"""A worker's way through the gate, on which no admitted job is lost: not even when the gate's answer is."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection

from headgate_django.core.outcomes import Claim
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.fence import Held
from headgate_django.lifecycle.reclaim import give_back_unheard

logger = logging.getLogger("headgate_django.worker")

UNSURE_SECONDS = 5.0
"""For how long after the connection broke its commit may still be carried out."""


class Door:
    """Admits, and gives back what an admit has claimed whose commit was not confirmed.

    A connection that breaks at the commit leaves open whether the jobs are ours. Nobody would run them, and at the
    end of its lease each would count a crash.
    """

    def __init__(self, gate: Gate, heard: Callable[[], Collection[Held]]) -> None:
        self._gate = gate
        self._heard = heard
        self._unsure_until: float | None = None

    @property
    def is_unsure(self) -> bool:
        """Whether there may be more of it."""
        return self._unsure_until is not None

    @property
    def came_round(self) -> bool:
        """As the gate's."""
        return self._gate.came_round

    def admit(self, capacity: int) -> list[Claim]:
        """As the gate's. Raises a database error, after which it is not known what was admitted."""
        self.make_sure()
        try:
            return self._gate.admit(capacity)
        except Exception:
            self._unsure_until = time.monotonic() + UNSURE_SECONDS
            raise

    def make_sure(self) -> None:
        """Give back what was admitted without our knowing, if that may be. Raises a database error."""
        if self._unsure_until is None:
            return
        last = time.monotonic() >= self._unsure_until
        count, locked = give_back_unheard(self._gate.worker_id, self._heard(), using=self._gate.using)
        if count:
            logger.warning("%d jobs are given back: the reply to their admission was lost", count)
        if last and not locked:
            self._unsure_until = None
