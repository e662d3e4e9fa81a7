"""Database trouble: back off with jitter, say so once, go on when it is over."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import connections

from headgate_django.models.store import is_connection_trouble

logger = logging.getLogger("headgate_django.worker")

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0


class Trouble:
    """Guards the runtime's own statements. One instance per thread and connection."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._pause = 0.0
        self._until = 0.0

    @property
    def pausing(self) -> float:
        """Seconds until the database is tried again; 0 when there is no trouble."""
        return max(0.0, self._until - time.monotonic())

    def guard(self, what: str, work: Callable[[], T]) -> T | None:
        """Run ``work``; None when the database is in trouble or being given a pause."""
        if self.pausing:
            return None
        try:
            result = work()
        except Exception as error:
            if not is_connection_trouble(error):
                raise
            self._report(what, error)
            return None
        if self._pause:
            logger.warning("the database answers again")
            self._pause = self._until = 0.0
        return result

    def _report(self, what: str, error: Exception) -> None:
        if not self._pause:
            # The class only: a driver's message may carry the connection string.
            logger.warning("cannot %s: %s; trying again with growing pauses", what, type(error).__name__)
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, self._pause * 2))
        self._until = time.monotonic() + self._pause * random.uniform(0.5, 1.0)
        connections[self._using].close()
