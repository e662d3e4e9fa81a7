"""Lost leases: jobs whose lease has expired, or whose process is known to be dead, are retryable or quarantined.

An expired lease is judged from the job alone: whether the worker's own row still exists never matters.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Any

from headgate_django.conf import config
from headgate_django.core.envelope import INT32_MAX
from headgate_django.core.outcomes import Claim, Failure, Outcome, settle
from headgate_django.core.states import Event, State
from headgate_django.lifecycle import quarantine
from headgate_django.lifecycle import settle as settling
from headgate_django.lifecycle.fence import Held
from headgate_django.lifecycle.wakeup import notify_after_commit
from headgate_django.models import clock
from headgate_django.models.fleet import Worker
from headgate_django.models.job import Job
from headgate_django.models.store import (
    alias,
    begin_pinned,
    fetch,
    retrying_locked,
    skip_locked,
    write_transaction,
)

LEASE_EXPIRED = Failure(error_class="LeaseLost", message="lease expired without ack", group="lease-expired")
UNHEARD = Failure(error_class="Unheard", message="admitted, but the worker was not told", group="unheard")
EXPIRED = Outcome(event=Event.LOSE_LEASE, failure=LEASE_EXPIRED)

Lost = tuple[Claim, Outcome]
"""A claim whose lease is lost, and an outcome of that event with the cause."""


def reclaim(*, limit: int = 500, using: str = "") -> int:
    """Take back up to ``limit`` expired leases, in one transaction; how many."""
    using = using or alias()

    def work() -> int:
        with write_transaction(using):
            now_ms = begin_pinned(using)
            rows = fetch(
                using,
                f"SELECT id FROM headgate_django_job WHERE state = '{State.RUNNING}'"
                " AND lease_expires_at_ms <= %s ORDER BY lease_expires_at_ms, id"
                f" LIMIT %s {skip_locked(using)}",
                [now_ms, limit],
            )
            expired = Job.objects.using(using).filter(id__in=[row[0] for row in rows])
            claims = [claim_of(job) for job in expired] if rows else []
            return len(lose_leases([(claim, EXPIRED) for claim in claims], now_ms=now_ms, using=using))

    return retrying_locked(using, work)


def report_lost(results: Sequence[Lost], *, using: str = "") -> set[Held]:
    """Jobs whose own process died, each to blame for itself; (id, fence) of those that still held their lease."""
    using = using or alias()

    def work() -> set[Held]:
        with write_transaction(using):
            return lose_leases(results, now_ms=clock.now_ms(using), using=using, each_its_own=True)

    return retrying_locked(using, work) if results else set()


def lose_worker(
    worker_id: str, cause: Failure, *, innocent: Collection[Held] = (), is_crash: bool = True, using: str = ""
) -> tuple[int, int]:
    """A worker process is gone: take its leases back now; how many were lost, and how many given back.

    The ``innocent`` (id and fence) were in processes of their own and did not kill it: they are interrupted, which
    costs nothing, and so are all when its end was no crash.
    """
    using = using or alias()
    lost = Outcome(event=Event.LOSE_LEASE, failure=cause)

    def work() -> tuple[int, int]:
        with write_transaction(using):
            now_ms = begin_pinned(using)
            claims = _claims_of(worker_id, using)
            settling.lock(claims, using)  # all of them, in the order of their ids, before any is written
            guilty = [claim for claim in claims if is_crash and claim.run_id not in innocent]
            held = lose_leases([(claim, lost) for claim in guilty], now_ms=now_ms, using=using)
            returned = _give_back([claim for claim in claims if claim not in guilty], cause, using)
            Worker.objects.using(using).filter(id=worker_id).delete()
            notify_after_commit({claim.queue for claim in guilty}, using)
            return len(held), returned

    return retrying_locked(using, work)


def give_back_unheard(worker_id: str, heard: Collection[Held], *, using: str = "") -> tuple[int, int]:
    """Give back what a worker was admitted without hearing of it: the reply to the commit was lost.

    ``heard`` are the (id, fence) of the claims that it knows. The others were never started: they are interrupted.
    How many there were, and how many more that somebody has locked at this moment.
    """
    using = using or alias()

    def work() -> tuple[int, int]:
        with write_transaction(using):
            begin_pinned(using)
            claims = [claim for claim in _claims_of(worker_id, using) if claim.run_id not in heard]
            locked = settling.locked_by_others(claims, using)
            return _give_back([claim for claim in claims if claim.run_id not in locked], UNHEARD, using), len(
                locked
            )

    return retrying_locked(using, work)


def _claims_of(worker_id: str, using: str) -> list[Claim]:
    running = Job.objects.using(using).filter(state=State.RUNNING, worker_id=worker_id).order_by("pk")
    return [claim_of(job) for job in running]


def _give_back(claims: Sequence[Claim], cause: Failure, using: str) -> int:
    given_back = Outcome(event=Event.INTERRUPT, failure=cause)
    returned = settling.write([(claim, settle(claim, given_back, jitter=0.0)) for claim in claims], using=using)
    notify_after_commit({claim.queue for claim in claims}, using)
    return len(returned)


def lose_leases(results: Sequence[Lost], *, now_ms: int, using: str, each_its_own: bool = False) -> set[Held]:
    """Report leases lost, inside the caller's transaction; (id, fence) of those that were still held.

    At the crash limit the content is quarantined, and with it all of its jobs that are lost here. With
    ``each_its_own`` no two of them shared a process.
    """
    if not results:
        return set()
    contents = settling.lock([claim for claim, _ in results], using)
    outcomes = {claim.run_id: outcome for claim, outcome in results}
    unique = {claim.run_id: claim for claim, _ in results}
    lost = [(contents[key], claim) for key, claim in unique.items() if key in contents]
    crashes = quarantine.count_crashes(lost, now_ms, using, each_its_own=each_its_own)
    for fingerprint, claim in lost:
        crashes[fingerprint] = max(crashes[fingerprint], min(claim.crash_attempt + 1, INT32_MAX))
    known = quarantine.lock_quarantines(crashes.keys(), using)

    limit = config().crash_limit
    ended = []
    for fingerprint, claim in lost:
        # Content that is in quarantine already has reached the limit, whatever is counted now.
        in_force = fingerprint in known and not known[fingerprint].is_lifted
        counted = max(crashes[fingerprint], limit * in_force)
        to = settle(claim, outcomes[claim.run_id], jitter=random.random(), crash_limit=limit, crashes=counted)
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
