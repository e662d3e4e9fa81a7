"""``@job(atomic=True)``: what a handler writes and the end of its run are one transaction, under its fence.

Either both are stored or neither is, so effects in the queue's database happen exactly once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from django.db import DatabaseError, connections, transaction

from headgate_django.core.outcomes import Claim, Failure, Outcome
from headgate_django.core.states import Event
from headgate_django.lifecycle.ack import ack
from headgate_django.models.store import (
    CANCELLED,
    TRANSACTION_STATE,
    alias,
    error_code,
    is_connection_trouble,
    is_contention,
    write_transaction,
)

logger = logging.getLogger("headgate_django.worker")

NO_TRANSACTION_DELAY_MS = 5_000

FREE_RUNS = 20
"""A job that has been run more often than this is charged for a commit that fails, whatever the reason."""


def in_one_transaction(
    work: Callable[[], object],
    claim: Claim,
    success: Callable[[], Outcome],
    using: str = "",
) -> Outcome:
    """Do the work and ack its success, or roll both back. Raises what the work raises.

    The outcome is marked as acked when nothing is left to write: it was written, or the lease was lost.
    """
    using = using or alias()
    step = _Step()
    try:
        with write_transaction(using):
            transaction.on_commit(step.committed, using=using)  # before the handler's own, which may raise
            step.now = _Step.WORKING
            work()
            step.now = _Step.ENDING
            outcome = replace(success(), acked=True)
            if ack([(claim, outcome)], using=using):
                transaction.set_rollback(True, using=using)
                logger.warning("job %s: its lease was lost before it ended; all that it wrote is undone", claim.id)
        return outcome
    except BaseException as error:
        if step.now == _Step.COMMITTED:
            logger.exception("job %s has succeeded; a callback after its commit raised", claim.id)
            return outcome
        if isinstance(error, DatabaseError) and (is_contention(error) or is_connection_trouble(error)):
            if step.now == _Step.BEGINNING and not connections[using].in_atomic_block:
                return _later("begin", error)
            if step.now == _Step.ENDING and claim.fence <= FREE_RUNS and not _is_own_doing(error):
                return _later("be committed", error)
        raise


class _Step:
    BEGINNING, WORKING, ENDING, COMMITTED = range(4)

    def __init__(self) -> None:
        self.now = self.BEGINNING

    def committed(self) -> None:
        self.now = self.COMMITTED


def _is_own_doing(error: BaseException) -> bool:
    # It took too long for the server, or broke its transaction: so it would again.
    return error_code(error) == CANCELLED or error_code(error).startswith(TRANSACTION_STATE)


def _later(what: str, error: BaseException) -> Outcome:
    # The handler was not called, or has done its part: it is not to blame, and the database needs a moment.
    failure = Failure(
        error_class="NoTransaction",
        message=f"its transaction could not {what}: {type(error).__name__}",
        group="no-transaction",
    )
    return Outcome(event=Event.SNOOZE, delay_ms=NO_TRANSACTION_DELAY_MS, failure=failure)
