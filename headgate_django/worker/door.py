"""A worker's way through the gate, on which no admitted job is lost: not even when the gate's answer is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from headgate_django.core.outcomes import Claim
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.fence import Held
from headgate_django.lifecycle.reclaim import give_back_unheard
from headgate_django.models.store import alias

logger = logging.getLogger("headgate_django.worker")


class Door:
    """Admits, and gives back what an admit has claimed whose commit was not confirmed.

    A connection that breaks at the commit leaves open whether the jobs are ours. Nobody would run them, and at the
    end of its lease each would count a crash.
    """

    def __init__(self, gate: Gate, heard: Callable[[], Collection[Held]]) -> None:
        self._gate = gate
        self._heard = heard
        self._unsure = False

    def admit(self, capacity: int) -> list[Claim]:
        """As the gate's. Raises a database error, after which it is not known what was admitted."""
        self.make_sure()
        self._unsure = True
        claims = self._gate.admit(capacity)
        self._unsure = False
        return claims

    def make_sure(self) -> None:
        """Give back what was admitted without our knowing, if that may be. Raises a database error."""
        if not self._unsure:
            return
        gate = self._gate
        if count := give_back_unheard(gate.worker_id, self._heard(), using=gate.using or alias()):
            logger.warning("%d jobs are given back: the reply to their admission was lost", count)
        self._unsure = False
