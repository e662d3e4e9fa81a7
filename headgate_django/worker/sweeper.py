"""The thread of a worker that takes part in the fleet's duties, and what relieves it when it is stalled."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence

from django.db import connections

from headgate_django.duties import lease
from headgate_django.duties.roster import SWEEPS, Sweep, perform
from headgate_django.models.store import is_postgres, limited
from headgate_django.worker.agenda import Agenda
from headgate_django.worker.trouble import LONGEST_PAUSE, Trouble

logger = logging.getLogger("headgate_django.worker")

STALL_SECONDS = 5.0
"""After so long in one batch a thread is relieved: another takes over the other duties."""

LOCK_MS, STATEMENT_MS = 3_000, 30_000
"""How long a sweep waits for a lock, and how long one of its statements may run."""

ANSWER_SECONDS = 0.5
"""How long a thread that is asked to end has for it; then its leases are given back by another."""

RENEWAL_SECONDS = LONGEST_PAUSE + 1.0
"""After an outage every worker has asked the database once more by then, and renewed the leases that it holds."""


class Turn:
    """One thread that performs duties, and since when it has been at its batch."""

    def __init__(self) -> None:
        self.thread: threading.Thread
        self.since: float | None = None

    @property
    def busy_for(self) -> float:
        """Seconds in the same batch; 0 between passes."""
        since = self.since
        return 0.0 if since is None else time.monotonic() - since


class Sweeper:
    """Performs each duty at its interval, with jitter; leaves it to others while they hold its lease.

    One thread performs, on one connection; a second one watches, and needs none. When a batch is stalled a further
    thread takes the other duties over; the stalled one ends when it comes back.
    """

    def __init__(
        self,
        holder: str,
        using: str,
        sweeps: Sequence[Sweep] = SWEEPS,
        stall_seconds: float = STALL_SECONDS,
        *,
        after_outage: bool = False,
    ) -> None:
        self._holder = holder
        self._using = using
        self._stall_seconds = stall_seconds
        self._agenda = Agenda(sweeps)
        self._stop = threading.Event()
        self._turn = Turn()
        self._outage = after_outage
        self._waited = False
        self._watcher = threading.Thread(target=self._watch, name="headgate-duties-watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._begin_turn()
        self._watcher.start()

    def resign(self) -> None:
        """Give all duties back, and take none again. Does not wait."""
        self._stop.set()

    def stop(self, timeout: float = 2.0) -> None:
        """End after the current batch, or leave it behind; all duties are given back, in bounded time."""
        self._stop.set()
        if self._watcher.ident is not None:
            self._watcher.join(timeout)

    def _begin_turn(self) -> None:
        self._turn = turn = Turn()
        turn.thread = threading.Thread(target=self._work, args=(turn,), name="headgate-duties", daemon=True)
        turn.thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(self._stall_seconds / 4):
            if not self._turn.thread.is_alive():
                logger.error("the thread that performs the duties has died; another takes its place")
                self._begin_turn()
            elif self._turn.busy_for > self._stall_seconds and self._relief_helps():
                logger.warning("a duty is stalled; another thread performs the others")
                self._begin_turn()
        self._turn.thread.join(ANSWER_SECONDS)
        if self._turn.thread.is_alive():
            self._release(Trouble(self._using))
            connections.close_all()

    def _relief_helps(self) -> bool:
        # Where one lock covers the whole file, what stalls one duty stalls them all.
        return is_postgres(self._using) and self._agenda.until_next is not None

    def _work(self, turn: Turn) -> None:
        trouble = Trouble(self._using)
        try:
            with limited(self._using, lock_ms=LOCK_MS, statement_ms=STATEMENT_MS):
                while self._has_turn(turn):
                    sweep = self._agenda.take()
                    if sweep is None:
                        pause = self._agenda.until_next
                        self._stop.wait(self._stall_seconds if pause is None else pause)
                        continue
                    self._perform(sweep, turn, trouble)
                    self._stop.wait(trouble.pausing)
                if self._stop.is_set():
                    # Also after a stall: its last batch may have taken a lease that was given back meanwhile.
                    self._release(trouble)
        finally:
            connections.close_all()

    def _has_turn(self, turn: Turn) -> bool:
        return self._turn is turn and not self._stop.is_set()

    def _release(self, trouble: Trouble) -> None:
        trouble.guard("release duties", lambda: lease.release(self._holder, using=self._using))

    def _perform(self, sweep: Sweep, turn: Turn, trouble: Trouble) -> None:
        def go_on() -> bool:
            turn.since = time.monotonic()
            return self._has_turn(turn)

        pause = sweep.interval
        try:
            wanted = trouble.guard(f"perform duty {sweep.name}", lambda: self._pass(sweep, go_on))
            if wanted is None:
                self._note_failure(sweep, outage=trouble.pausing > 0)
                wanted = trouble.pausing or max(pause, trouble.pausing_for(f"perform duty {sweep.name}"))
            pause = wanted
        finally:
            turn.since = None
            self._agenda.put_back(sweep, pause)

    def _note_failure(self, sweep: Sweep, *, outage: bool) -> None:
        self._outage = self._outage or outage
        # Another duty that goes on failing must not make this one wait for ever.
        self._waited = self._waited and not (sweep.after_renewals and outage)

    def _pass(self, sweep: Sweep, go_on: Callable[[], bool]) -> float:
        """One pass; seconds until the next."""
        if sweep.after_renewals and self._outage and not self._waited:
            # Something can be written again, and the holders of leases find that out about now.
            lease.acquire(sweep.name, self._holder, sweep.ttl_ms, using=self._using)
            self._waited = True
            return RENEWAL_SECONDS
        handled = perform(sweep, self._holder, using=self._using, go_on=go_on)
        if sweep.after_renewals:
            self._outage = self._waited = False
        if handled is None:
            return sweep.ttl_ms / 1000 * random.uniform(0.5, 1.0)
        if handled:
            logger.info("duty %s handled %d", sweep.name, handled)
        return sweep.interval
