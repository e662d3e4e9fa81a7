"""Step 1: jobs whose time has come become available."""

from __future__ import annotations

from headgate_django.core.states import Event, State, sources
from headgate_django.models.job import announce
from headgate_django.models.store import fetch, literals, skip_locked, unindexed

LIMIT = 500

_ORIGINS = literals(*sources(Event.DUE))
_PROMOTE = f"""
WITH due AS MATERIALIZED (
    SELECT id FROM headgate_django_job
    WHERE state IN ({_ORIGINS}) AND scheduled_at_ms <= %s
    ORDER BY scheduled_at_ms, id
    LIMIT %s
    {{lock}}
)
UPDATE headgate_django_job
SET state = '{State.AVAILABLE}'
WHERE id IN (SELECT id FROM due) AND {unindexed("state")} IN ({_ORIGINS})
RETURNING id
"""


def make_due_available(now_ms: int, using: str) -> int:
    """Promote up to 500 due jobs of any queue; how many. One index probe when there is none."""
    rows = fetch(using, _PROMOTE.format(lock=skip_locked(using)), [now_ms, LIMIT])
    if rows:
        announce([row[0] for row in rows], Event.DUE, State.AVAILABLE, using=using)
    return len(rows)
