"""Step 1: jobs whose time has come become available."""

from __future__ import annotations

from headgate_django.core.states import Event, sources
from headgate_django.models.job import Job
from headgate_django.models.store import fetch, literals, skip_locked

LIMIT = 500


def make_due_available(now_ms: int, using: str) -> int:
    """Promote up to 500 due jobs of any queue; how many. One index probe when there is none."""
    rows = fetch(
        using,
        f"SELECT id FROM headgate_django_job WHERE state IN ({literals(*sources(Event.DUE))})"
        f" AND scheduled_at_ms <= %s ORDER BY scheduled_at_ms, id LIMIT %s {skip_locked(using)}",
        [now_ms, LIMIT],
    )
    if not rows:
        return 0
    return Job.objects.using(using).filter(id__in=[row[0] for row in rows]).transition(Event.DUE, now_ms=now_ms)
