"""Ended runs on their way into the database: in batches, and again under the same fence while it is in trouble."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from django.db import DatabaseError

from headgate_django.core.outcomes import Claim, Failure, Outcome
from headgate_django.core.states import Event
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.fence import Held
from headgate_django.lifecycle.reclaim import report_lost
from headgate_django.lifecycle.settle import locked_by_others
from headgate_django.models.store import is_connection_trouble, is_locked_out
from headgate_django.worker.run import Run
from headgate_django.worker.trouble import Trouble

logger = logging.getLogger("headgate_django.worker")

LAST_TRIES = 5
"""How often the last outcomes are written while the database is in trouble; then the leases expire."""

PARKED_SECONDS = 1.0
"""How often it is looked whether a job that somebody had locked is free."""

UNSTORABLE = Failure(error_class="Unstorable", message="the error text could not be stored", group="unstorable")


class Acks:
    """What has ended and is not written yet."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._waiting: list[tuple[Run, Outcome]] = []
        self._parked: set[Held] = set()
        self._next_look = 0.0
        self._unsure = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def runs(self) -> list[Run]:
        """Runs whose leases must be kept until their ends are written."""
        return [run for run, _ in self._waiting]

    def add(self, run: Run, outcome: Outcome) -> None:
        """Write this at the next flush. A run that lost its lease has nothing to say any more."""
        if not (run.lost or run.abandoned or outcome.acked):
            self._waiting.append((run, outcome))

    def flush(self) -> bool:
        """Write everything; True. Raises a database error, and keeps what is not written."""
        if not self._waiting:
            return True
        if self._parked and time.monotonic() >= self._next_look:
            self._park()
        try:
            self._write(self._movable())
        except DatabaseError as error:
            if not is_locked_out(error):
                self._unsure = True  # it may have been written, and only the reply be lost
                raise
            self._park()
            self._write(self._movable())
        self._unsure = False
        return True

    def _park(self) -> None:
        # Somebody has locked jobs that ran here: the others must not wait for them, now or at the next flush.
        self._parked = locked_by_others([run.claim for run, _ in self._waiting], self._using)
        self._next_look = time.monotonic() + PARKED_SECONDS

    def _movable(self) -> list[tuple[Run, Outcome]]:
        return [one for one in self._waiting if one[0].claim.run_id not in self._parked]

    def _write(self, results: Sequence[tuple[Run, Outcome]]) -> None:
        ended = [one for one in results if one[1].event is not Event.LOSE_LEASE]
        for claim in self._ack([(run.claim, outcome) for run, outcome in ended]):
            if self._unsure:
                logger.info("job %s: its outcome was written before, or the lease was lost", claim.id)
                continue
            logger.warning("job %s: its lease was lost before the run ended; the outcome is dropped", claim.id)
        self._forget(ended)
        crashed = [one for one in results if one[1].event is Event.LOSE_LEASE]
        report_lost([(run.claim, outcome) for run, outcome in crashed], using=self._using)
        self._forget(crashed)
        for run, outcome in crashed:
            logger.warning("job %s: %s", run.claim.id, outcome.failure.message if outcome.failure else "crashed")

    def _forget(self, written: Sequence[tuple[Run, Outcome]]) -> None:
        runs = {run for run, _ in written}
        self._waiting = [one for one in self._waiting if one[0] not in runs]

    def insist(self, trouble: Trouble) -> None:
        """The last flush: a few tries."""
        for _ in range(LAST_TRIES):
            trouble.guard("ack", self.flush)
            if not self._waiting:
                return
            time.sleep(trouble.pausing)

    def _ack(self, results: list[tuple[Claim, Outcome]]) -> list[Claim]:
        try:
            return ack(results, using=self._using)
        except DatabaseError as error:
            if is_connection_trouble(error):
                raise
            if len(results) > 1:  # one unstorable outcome must not hold back the others
                return [claim for result in results for claim in self._ack([result])]
            [(claim, outcome)] = results
            logger.exception("the outcome of job %s cannot be stored as it is", claim.id)
            return ack([(claim, replace(outcome, failure=UNSTORABLE, logs=""))], using=self._using)
