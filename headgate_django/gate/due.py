"""Step 1: jobs whose time has come become available."""

from __future__ import annotations

from headgate_django.core.states import Event, State, sources
from headgate_django.models.job import announce
from headgate_django.models.store import execute, fetch, literals, marks, skip_locked, unindexed

LIMIT = 500

_ORIGINS = literals(*sources(Event.DUE))
_DUE = f"""
SELECT id FROM headgate_django_job
WHERE state IN ({_ORIGINS}) AND scheduled_at_ms <= %s
ORDER BY scheduled_at_ms, id
LIMIT %s
{{lock}}
"""
_PROMOTE = f"""
UPDATE headgate_django_job
SET state = '{State.AVAILABLE}'
WHERE id IN ({{ids}}) AND {unindexed("state")} IN ({_ORIGINS})
"""


def make_due_available(now_ms: int, using: str) -> int:
    """Promote up to ``LIMIT`` due jobs of any queue; how many. One index probe when there is none."""
    ids = [row[0] for row in fetch(using, _DUE.format(lock=skip_locked(using)), [now_ms, LIMIT])]
    if ids:
        execute(using, _PROMOTE.format(ids=marks(len(ids))), ids)
        announce(ids, Event.DUE, State.AVAILABLE, using=using)
    return len(ids)
