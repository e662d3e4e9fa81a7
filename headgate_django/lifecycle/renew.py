"""Renew: keep the right to write. One statement for all the claims of a worker."""

from __future__ import annotations

from collections.abc import Sequence

from headgate_django.core.outcomes import Claim
from headgate_django.lifecycle import fence
from headgate_django.lifecycle.fence import Held
from headgate_django.models import clock
from headgate_django.models.store import (
    alias,
    fetch,
    retrying_locked,
    rows_per_statement,
    rowset,
)


def renew(claims: Sequence[Claim], lease_ms: int, *, using: str = "") -> list[Claim]:
    """Extend the leases by ``lease_ms`` from now; the claims whose lease was lost.

    An expired lease that nobody has reclaimed yet is still held, and is renewed.
    """
    using = using or alias()
    claims = sorted(claims, key=lambda claim: claim.id)  # as all who lock several jobs do
    step = rows_per_statement(using, len(fence.COLUMNS) + 1)
    held: set[Held] = set()
    for start in range(0, len(claims), step):
        held |= _extend(claims[start : start + step], lease_ms, using)
    return [claim for claim in claims if claim.run_id not in held]


_EXTEND = """
WITH {held} {locked}
UPDATE headgate_django_job
SET lease_expires_at_ms = {now} + %s
FROM held
WHERE {still_held}
RETURNING headgate_django_job.id, headgate_django_job.fence
"""


def _extend(claims: Sequence[Claim], lease_ms: int, using: str) -> set[Held]:
    held, params = rowset(using, "held", fence.COLUMNS, [fence.key(claim) for claim in claims])
    locked, still_held = fence.updating("held", using)
    sql = _EXTEND.format(held=held, locked=locked, still_held=still_held, now=clock.now_sql(using))
    return retrying_locked(using, lambda: set(fetch(using, sql, [*params, lease_ms])))
