"""The thread of a worker that takes part in the fleet's duties."""

from __future__ import annotations

import logging
import random
import threading
import time

from django.db import connections, reset_queries

from headgate_django.duties import lease
from headgate_django.duties.roster import SWEEPS, Sweep, perform
from headgate_django.worker.trouble import Trouble

logger = logging.getLogger("headgate_django.worker")


class Sweeper:
    """Performs each duty at its interval, with jitter; leaves it to others while they hold its lease."""

    def __init__(self, holder: str, using: str) -> None:
        self._holder = holder
        self._using = using
        self._stop = threading.Event()
        self._next = {sweep.name: time.monotonic() + random.random() * sweep.interval for sweep in SWEEPS}
        self._thread = threading.Thread(target=self._work, name="headgate-duties", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout: float = 2.0) -> None:
        """End after the current pass, and give the duties back."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _work(self) -> None:
        trouble = Trouble(self._using)
        try:
            while not self._stop.wait(self._until_next()):
                for sweep in SWEEPS:
                    if not self._stop.is_set() and self._next[sweep.name] <= time.monotonic():
                        self._perform(sweep, trouble)
                reset_queries()
            trouble.guard("release duties", lambda: lease.release(self._holder, using=self._using))
        finally:
            connections.close_all()

    def _until_next(self) -> float:
        return max(0.0, min(self._next.values()) - time.monotonic())

    def _perform(self, sweep: Sweep, trouble: Trouble) -> None:
        try:
            handled = trouble.guard(sweep.name, lambda: perform(sweep, self._holder, using=self._using))
        except Exception:
            # One sweep that fails must not stop the others, nor repeat at once.
            logger.exception("duty %s failed", sweep.name)
            handled = None
        if handled:
            logger.info("duty %s handled %d", sweep.name, handled)
        held = handled is not None
        pause = sweep.interval if held else sweep.ttl_ms / 1000 * random.uniform(0.5, 1.0)
        self._next[sweep.name] = time.monotonic() + pause * random.uniform(0.9, 1.1)
