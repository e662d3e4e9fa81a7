"""Reclaim: jobs whose lease has expired are retryable again, or quarantined at the crash limit.

Decided from the lease on the job alone: whether the worker's own row still exists never matters.
"""

from __future__ import annotations

import random
from typing import Any

from headgate_django.conf import config
from headgate_django.core.outcomes import Claim, Failure, Outcome, settle
from headgate_django.core.states import Event, State
from headgate_django.lifecycle import settle as settling
from headgate_django.lifecycle.settle import Held
from headgate_django.models import clock
from headgate_django.models.job import Job
from headgate_django.models.quarantine import Quarantine
from headgate_django.models.store import alias, fetch, retrying_locked, skip_locked, write_transaction

LEASE_EXPIRED = Failure(error_class="LeaseLost", message="lease expired without ack", group="lease-expired")


def reclaim(*, limit: int = 500, using: str = "") -> int:
    """Take back up to ``limit`` expired leases, in one transaction; how many."""
    using = using or alias()

    def work() -> int:
        with write_transaction(using):
            now_ms = clock.now_ms(using)
            rows = fetch(
                using,
                f"SELECT id FROM headgate_django_job WHERE state = '{State.RUNNING}'"
                " AND lease_expires_at_ms <= %s ORDER BY lease_expires_at_ms, id"
                f" LIMIT %s {skip_locked(using)}",
                [now_ms, limit],
            )
            expired = Job.objects.using(using).filter(id__in=[row[0] for row in rows])
            claims = [claim_of(job) for job in expired] if rows else []
            return len(lose_leases(claims, LEASE_EXPIRED, now_ms=now_ms, using=using))

    return retrying_locked(using, work)


def lose_leases(claims: list[Claim], cause: Failure, *, now_ms: int, using: str) -> set[Held]:
    """Report leases lost, inside the caller's transaction; (id, fence) of those that were still held."""
    crash_limit = config().crash_limit
    outcome = Outcome(event=Event.LOSE_LEASE, failure=cause)
    pairs = [(claim, settle(claim, outcome, jitter=random.random(), crash_limit=crash_limit)) for claim in claims]
    held = settling.write(pairs, using=using)
    ended = [(claim, to) for claim, to in pairs if (claim.id, claim.fence) in held]
    poisoned = [claim.id for claim, to in ended if to.state is State.QUARANTINED]
    if poisoned:
        _quarantine(poisoned, now_ms, using)
    return held


def _quarantine(ids: list[str], now_ms: int, using: str) -> None:
    rows = {
        job.fingerprint: Quarantine(
            fingerprint=job.fingerprint,
            kind=job.kind,
            reason="crash limit reached",
            crash_count=job.crash_attempt,
            sample_job_id=job.id,
            created_at_ms=now_ms,
        )
        for job in Job.objects.using(using).filter(id__in=ids).order_by("fingerprint", "id")
    }
    # Waits for a release that is deleting a row, and locks rows that exist: a release that comes now waits for
    # these jobs, instead of leaving them in quarantine without a row.
    Quarantine.objects.using(using).bulk_create(
        rows.values(), update_conflicts=True, unique_fields=["fingerprint"], update_fields=["kind"]
    )


def claim_of(job: Job) -> Claim:
    """The claim that a running row stands for."""
    columns: dict[str, Any] = {
        name: getattr(job, name) for name in Claim.__slots__ if name not in {"started_at_ms", "payload", "headers"}
    }
    return Claim(**columns, started_at_ms=job.attempted_at_ms or 0)
