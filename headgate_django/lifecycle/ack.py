"""Ack: the only way a run ends. Claim + outcome → next state, fenced."""

from __future__ import annotations

import random
from collections.abc import Sequence

from headgate_django.core.outcomes import RUN_EVENTS, Claim, Outcome, settle
from headgate_django.exceptions import LeaseLost
from headgate_django.lifecycle import settle as settling
from headgate_django.lifecycle.fence import Held
from headgate_django.lifecycle.report import Reports
from headgate_django.models.store import alias, retrying_locked, write_transaction


def ack(results: Sequence[tuple[Claim, Outcome]], *, using: str = "") -> list[Claim]:
    """End runs, all in one transaction; the claims that were refused because they had lost their lease.

    A refused claim changes nothing, and does not stop the others of the batch.
    """
    if not results:
        return []
    for _, outcome in results:
        if outcome.event not in RUN_EVENTS:
            raise ValueError(f"{outcome.event} is not acked by a worker")
    using = using or alias()

    pairs = [(claim, settle(claim, outcome, jitter=random.random())) for claim, outcome in results]

    reports = Reports(results)

    def work() -> set[Held]:
        if not reports and settling.is_one_statement(pairs, using):
            return settling.write(pairs, using=using)
        with write_transaction(using):
            # Policy rows are locked before jobs, as everywhere.
            reports.lock(using)
            held = settling.write(pairs, using=using)
            reports.apply(held, using)
            return held

    held = retrying_locked(using, work)
    return [claim for claim, _ in results if claim.run_id not in held]


def ack_one(claim: Claim, outcome: Outcome, *, using: str = "") -> None:
    """End one run. Raises LeaseLost, having written nothing, when the claim has lost its lease."""
    if ack([(claim, outcome)], using=using):
        raise LeaseLost(claim.id, outcome.event)
