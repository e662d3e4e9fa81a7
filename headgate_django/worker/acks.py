"""Ended runs on their way into the database: in batches, and again under the same fence while it is in trouble."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from math import inf

from django.db import DatabaseError

from headgate_django.core.outcomes import Claim, Failure, Outcome
from headgate_django.core.states import Event
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.fence import Held
from headgate_django.lifecycle.reclaim import report_lost
from headgate_django.lifecycle.report import Reports
from headgate_django.lifecycle.settle import locked_by_others
from headgate_django.models.store import is_connection_trouble, is_locked_out
from headgate_django.worker.run import Run
from headgate_django.worker.trouble import FLOOR, Trouble

logger = logging.getLogger("headgate_django.worker")

LAST_SECONDS = 5.0
"""For how long the last outcomes are tried to be written while the database is in trouble."""

PARKED_SECONDS = 1.0
"""How often it is looked whether a job that somebody had locked is free."""

REPORT_SECONDS = 5.0
"""How often it is tried again to write what changes a rate class that somebody had locked."""

UNSTORABLE = Failure(error_class="Unstorable", message="the error text could not be stored", group="unstorable")

Results = Sequence[tuple[Run, Outcome]]


class Acks:
    """What has ended and is not written yet."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._waiting: list[tuple[Run, Outcome]] = []
        self._parked: dict[Held, float] = {}
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
        """Write all that nobody has locked; True. Raises a database error, and keeps what is not written."""
        if not self._waiting:
            return True
        self._look_at_parked()
        movable = self._movable(self._waiting)
        reporting = [one for one in movable if Reports([(one[0].claim, one[1])])]
        try:
            self._write_free([one for one in movable if one not in reporting], self._park_locked)
            for name in sorted({run.claim.rate_class for run, _ in reporting}):  # a locked one holds up no other
                self._write_free(
                    [one for one in reporting if one[0].claim.rate_class == name], self._park_reporting
                )
        except DatabaseError:
            self._unsure = True  # it may have been written, and only the reply be lost
            raise
        self._unsure = False
        return True

    def _write_free(self, results: Results, park: Callable[[Results], None]) -> None:
        try:
            self._write(results)
        except DatabaseError as error:
            if not is_locked_out(error):
                raise
            results = [one for one in results if one in self._waiting]  # a part may have been written
            park(results)
            self._write(self._movable(results))

    def _look_at_parked(self) -> None:
        now = time.monotonic()
        again = [one for one in self._waiting if self._parked.get(one[0].claim.run_id, inf) <= now]
        self._park_locked(again)

    def _park_locked(self, results: Results) -> None:
        # Somebody has locked jobs that ran here: the others must not wait for them, now or at the next flush.
        locked = locked_by_others([run.claim for run, _ in results], self._using) if results else ()
        self._park(results, locked, PARKED_SECONDS)

    def _park_reporting(self, results: Results) -> None:
        # Somebody has locked a rate class: those that have nothing to say of it must not wait, either.
        self._park(results, [run.claim.run_id for run, _ in results], REPORT_SECONDS)

    def _park(self, results: Results, locked: Collection[Held], seconds: float) -> None:
        for run, _ in results:
            self._parked.pop(run.claim.run_id, None)
        self._parked.update(dict.fromkeys(locked, time.monotonic() + seconds))

    def _movable(self, results: Results) -> Results:
        return [one for one in results if one[0].claim.run_id not in self._parked]

    def _write(self, results: Results) -> None:
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

    def _forget(self, written: Results) -> None:
        runs = {run for run, _ in written}
        self._waiting = [one for one in self._waiting if one[0] not in runs]
        for run in runs:
            self._parked.pop(run.claim.run_id, None)

    def insist(self, trouble: Trouble) -> None:
        """The last flush: again and again, until everything is written or the time is up."""
        end = time.monotonic() + LAST_SECONDS
        while True:
            self._parked = dict.fromkeys(self._parked, 0.0)
            trouble.guard("ack", self.flush)
            remaining = end - time.monotonic()
            if not self._waiting or remaining <= 0:
                return
            time.sleep(min(remaining, max(trouble.pausing_for("ack"), FLOOR)))

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
