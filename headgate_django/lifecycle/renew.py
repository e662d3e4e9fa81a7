"""Renew: keep the right to write. One statement for all the claims of a worker."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connections

from headgate_django.core.outcomes import Claim
from headgate_django.core.states import State
from headgate_django.lifecycle.settle import Held
from headgate_django.models import clock
from headgate_django.models.store import alias, fetch, marks, retrying_locked, write_transaction


def renew(claims: Sequence[Claim], lease_ms: int, *, using: str = "") -> list[Claim]:
    """Extend the leases by ``lease_ms`` from now; the claims whose lease was lost.

    An expired lease that nobody has reclaimed yet is still held, and is renewed.
    """
    using = using or alias()
    step = max(1, (connections[using].features.max_query_params or 12_000) // 3 - 1)

    def work() -> set[Held]:
        held: set[Held] = set()
        with write_transaction(using):
            for start in range(0, len(claims), step):
                held |= _extend(claims[start : start + step], lease_ms, using)
        return held

    claims = sorted(claims, key=lambda claim: claim.id)  # as all who lock several jobs do
    held = retrying_locked(using, work) if claims else set()
    return [claim for claim in claims if (claim.id, claim.fence) not in held]


def _extend(claims: Sequence[Claim], lease_ms: int, using: str) -> set[Held]:
    sql = f"""
        WITH held (id, lease_id, fence) AS (VALUES {marks(len(claims), 3)})
        UPDATE headgate_django_job
        SET lease_expires_at_ms = {clock.now_sql(using)} + %s
        FROM held
        WHERE headgate_django_job.id = held.id
          AND headgate_django_job.state = '{State.RUNNING}'
          AND headgate_django_job.lease_id = held.lease_id
          AND headgate_django_job.fence = held.fence
        RETURNING headgate_django_job.id, headgate_django_job.fence
    """
    params = [value for claim in claims for value in (claim.id, claim.lease_id, claim.fence)]
    return {(row[0], row[1]) for row in fetch(using, sql, [*params, lease_ms])}
