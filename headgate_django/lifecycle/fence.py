"""The fence: what every write of a run is filtered on, so that a claim that has lost its lease writes nothing."""

from __future__ import annotations

from headgate_django.core.outcomes import Claim
from headgate_django.core.states import State
from headgate_django.models.store import is_postgres, one_by_one, unindexed

Held = tuple[str, int]
"""``Claim.run_id`` of a claim that holds: id and fence."""

COLUMNS = {"id": "text", "lease_id": "text", "fence": "bigint"}
"""The columns, with their SQL types, that a table of claims begins with."""


def key(claim: Claim) -> tuple[str, str, int]:
    """The values of ``COLUMNS``."""
    return claim.id, claim.lease_id, claim.fence


def still_held(claims: str, using: str) -> str:
    """The condition on ``headgate_django_job``, joined to the table ``claims``: each still holds its job."""
    same = [one_by_one(using, f"headgate_django_job.{column}", f"{claims}.{column}") for column in COLUMNS]
    return " AND ".join([*same, f"{unindexed('headgate_django_job.state')} = '{State.RUNNING}'"])


def updating(claims: str, using: str, *, wait: bool = True) -> tuple[str, str]:
    """What an UPDATE of the jobs that ``claims`` still hold needs: more of the WITH clause, and its condition.

    An UPDATE locks rows as its plan comes across them. Here they are locked before, in the order of their ids, as
    every verb does: two that met in another order would wait for each other for ever. Without ``wait``, those that
    somebody has locked are left out.
    """
    condition = still_held(claims, using)
    if not is_postgres(using):
        return "", condition
    locked = f"""
    , locked AS MATERIALIZED (
        SELECT headgate_django_job.id FROM headgate_django_job, {claims}
        WHERE {condition}
        ORDER BY headgate_django_job.id
        FOR NO KEY UPDATE OF headgate_django_job {"" if wait else "SKIP LOCKED"}
    )
    """
    return locked, f"{condition} AND {claims}.id IN (SELECT id FROM locked)"
