"""The fence: what every write of a run is filtered on, so that a claim that has lost its lease writes nothing."""

from __future__ import annotations

from headgate_django.core.outcomes import Claim
from headgate_django.core.states import State
from headgate_django.models.store import one_by_one, unindexed

Held = tuple[str, int]
"""``Claim.run_id`` of a claim that holds: id and fence."""

COLUMNS = {"id": "text", "lease_id": "text", "fence": "bigint"}
"""The columns, with their SQL types, that a table of claims begins with."""


def key(claim: Claim) -> tuple[str, str, int]:
    """The values of ``COLUMNS``."""
    return claim.id, claim.lease_id, claim.fence


def still_held(claims: str, using: str) -> str:
    """The condition on ``headgate_django_job``, joined to the table ``claims``: each still holds its job."""
    return f"""
    {one_by_one(using, "headgate_django_job.id", f"{claims}.id")}
    AND {unindexed("headgate_django_job.state")} = '{State.RUNNING}'
    AND headgate_django_job.lease_id = {claims}.lease_id
    AND headgate_django_job.fence = {claims}.fence
    """
