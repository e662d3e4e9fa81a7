"""Evict: terminal jobs are deleted when their retention has passed. Quarantined ones stay until released."""

from __future__ import annotations

from headgate_django.core.states import Event, sources
from headgate_django.models.job import Job
from headgate_django.models.store import (
    alias,
    begin_pinned,
    fetch,
    indexed_by,
    literals,
    retrying_locked,
    skip_locked,
    write_transaction,
)
from headgate_django.signals import jobs_evicted, send_after_commit


def evict(*, limit: int = 500, using: str = "") -> int:
    """Delete up to ``limit`` jobs whose retention has passed, in one short transaction; how many.

    A retention of 0 deletes a job on success; if it dies instead it is kept until an operator decides.
    """
    using = using or alias()

    def work() -> int:
        with write_transaction(using):
            now_ms = begin_pinned(using)
            rows = fetch(
                using,
                f"SELECT id FROM headgate_django_job {indexed_by(using, 'headgate_job_evict')}"
                f" WHERE state IN ({literals(*sources(Event.EVICT))})"
                " AND retention_ms > 0 AND finalized_at_ms + retention_ms <= %s"
                f" ORDER BY finalized_at_ms + retention_ms LIMIT %s {skip_locked(using)}",
                [now_ms, limit],
            )
            if not rows:
                return 0
            expired = Job.objects.using(using).filter(id__in=[row[0] for row in rows])
            moved = expired.transition(Event.EVICT, now_ms=now_ms)
            send_after_commit(jobs_evicted, Job, using=using, count=moved)
            return moved

    return retrying_locked(using, work)
