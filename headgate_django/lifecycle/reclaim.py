"""Reclaim: jobs whose lease has expired are retryable again, or quarantined at the crash limit.

Decided from the lease on the job alone: whether the worker's own row still exists never matters.
"""

from __future__ import annotations

import random
from typing import Any

from headgate_django.conf import config
from headgate_django.core.envelope import INT32_MAX
from headgate_django.core.outcomes import Claim, Failure, Outcome, settle
from headgate_django.core.states import Event, State
from headgate_django.lifecycle import quarantine
from headgate_django.lifecycle import settle as settling
from headgate_django.lifecycle.settle import Held
from headgate_django.models import clock
from headgate_django.models.job import Job
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
    """Report leases lost, inside the caller's transaction; (id, fence) of those that were still held.

    At the crash limit the content is quarantined, and with it all of its jobs that are lost here.
    """
    if not claims:
        return set()
    contents = settling.lock(claims, using)
    unique = {(claim.id, claim.fence): claim for claim in claims}
    lost = [(contents[key], claim) for key, claim in unique.items() if key in contents]
    crashes = quarantine.count_crashes(lost, now_ms, using)
    for fingerprint, claim in lost:
        crashes[fingerprint] = max(crashes[fingerprint], min(claim.crash_attempt + 1, INT32_MAX))
    known = quarantine.lock_quarantines(crashes.keys(), using)

    limit = config().crash_limit
    outcome = Outcome(event=Event.LOSE_LEASE, failure=cause)
    ended = []
    for fingerprint, claim in lost:
        # Content that is in quarantine already has reached the limit, whatever is counted now.
        in_force = fingerprint in known and not known[fingerprint].is_lifted
        counted = max(crashes[fingerprint], limit * in_force)
        to = settle(claim, outcome, jitter=random.random(), crash_limit=limit, crashes=counted)
        ended.append((fingerprint, claim, to))
    quarantine.condemn(ended, crashes, known, now_ms, using)
    return settling.write([(claim, to) for _, claim, to in ended], using=using)


_PRIVATE = frozenset({"payload", "headers"})
_NOT_STORED = frozenset({"started_at_ms", "charged_weight", "suspect"})


def claim_of(job: Job) -> Claim:
    """The claim that a running row stands for, without what only the gate knew."""
    columns: dict[str, Any] = {
        name: getattr(job, name) for name in Claim.__slots__ if name not in _PRIVATE | _NOT_STORED
    }
    return Claim(**columns, started_at_ms=job.attempted_at_ms or 0)
