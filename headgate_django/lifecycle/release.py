"""Release: an operator vouches for quarantined content, or one job of it runs ahead to see whether it is cured."""

from __future__ import annotations

from headgate_django.core.states import Event, State
from headgate_django.lifecycle.wakeup import notify_after_commit
from headgate_django.models import clock
from headgate_django.models.job import Job, JobQuerySet
from headgate_django.models.quarantine import Quarantine, Suspect
from headgate_django.models.store import alias, begin_pinned, execute, fetch, skip_locked, write_transaction


def release(fingerprint: str, *, canary: bool = False, using: str = "") -> int:
    """Lift the quarantine of ``fingerprint`` and make its jobs available; how many jobs.

    ``canary=True`` makes only the oldest one available. When it succeeds the others follow; when it crashes, or
    ends in another way, the content stays in quarantine. 0 without a quarantine or a job, or with a canary out.
    """
    using = using or alias()
    with write_transaction(using):
        if canary:
            return int(bool(send_canary(fingerprint, using=using)))
        lift(fingerprint, using=using)
        return release_jobs(Job.objects.using(using).filter(fingerprint=fingerprint))


def lift(fingerprint: str, *, using: str) -> bool:
    """Allow this content again: it may be enqueued and admitted. Whether it was quarantined.

    What its jobs crashed together is counted from 0.
    """
    with write_transaction(using):
        Suspect.objects.using(using).filter(fingerprint=fingerprint).delete()
        return bool(Quarantine.objects.using(using).filter(fingerprint=fingerprint).delete()[0])


def send_canary(fingerprint: str, *, using: str) -> str:
    """Make the oldest quarantined job of this content available, and no other; its id, or '' if it cannot be."""
    with write_transaction(using):
        now_ms = clock.now_ms(using)
        # A suspect, so that the canary's success is noticed. Locked before the quarantine, as everywhere.
        if not execute(using, _SUSPECT, [now_ms, fingerprint]):
            return ""
        rows = Quarantine.objects.using(using).in_force().select_for_update()
        row = rows.filter(fingerprint=fingerprint, canary_job_id="").first()
        jobs = Job.objects.using(using).in_state(State.QUARANTINED).filter(fingerprint=fingerprint)
        oldest = jobs.order_by("enqueued_at_ms", "id").values_list("id", flat=True).first() if row else None
        if row is None or oldest is None or not release_jobs(jobs.filter(pk=oldest)):
            return ""
        row.canary_job_id = oldest
        row.save(using=using, update_fields=["canary_job_id"])
        return oldest


_SUSPECT = """
INSERT INTO headgate_django_suspect (fingerprint, crash_count, workers, seen_at_ms)
SELECT fingerprint, 0, '{}', %s FROM headgate_django_quarantine
WHERE fingerprint = %s AND canary_job_id = '' AND NOT is_lifted
ON CONFLICT (fingerprint) DO UPDATE SET seen_at_ms = excluded.seen_at_ms
"""


def release_jobs(jobs: JobQuerySet) -> int:
    """Make the selected quarantined jobs available, after ``lift``; how many.

    What the quarantine counted starts again at 0; otherwise the next crash would quarantine at once.
    """
    jobs = jobs.for_write()
    using = jobs.db
    with write_transaction(using):
        now_ms = clock.now_ms(using)
        quarantined = jobs.in_state(State.QUARANTINED)
        queues = set(quarantined.order_by().values_list("queue", flat=True).distinct()[:100])
        moved = quarantined.transition(Event.RELEASE, now_ms=now_ms, scheduled_at_ms=now_ms, crash_attempt=0)
        notify_after_commit(queues, using)
    return moved


def follow_canary(*, limit: int, using: str) -> int:
    """Give back up to ``limit`` jobs of one content whose canary succeeded; how many. The last take the row."""
    with write_transaction(using):
        begin_pinned(using)
        lifted = Quarantine.objects.using(using).filter(is_lifted=True).order_by("fingerprint")
        row = lifted.select_for_update(skip_locked=True).first()
        if row is None:
            return 0
        rows = fetch(
            using,
            f"SELECT id FROM headgate_django_job"
            f" WHERE state = '{State.QUARANTINED}' AND finalized_at_ms IS NOT NULL AND fingerprint = %s"
            f" ORDER BY state, finalized_at_ms, id LIMIT %s {skip_locked(using)}",
            [row.fingerprint, limit],
        )
        moved = release_jobs(Job.objects.using(using).filter(pk__in=[job_id for (job_id,) in rows]))
        left = Job.objects.using(using).in_state(State.QUARANTINED).filter(fingerprint=row.fingerprint)
        if len(rows) < limit and not left.exists():
            row.delete()
        return moved
