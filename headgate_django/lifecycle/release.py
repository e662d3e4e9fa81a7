"""Release: an operator vouches for quarantined content."""

from __future__ import annotations

from headgate_django.core.states import Event, State
from headgate_django.lifecycle.wakeup import notify_after_commit
from headgate_django.models import clock
from headgate_django.models.job import Job, JobQuerySet
from headgate_django.models.quarantine import Quarantine
from headgate_django.models.store import alias, write_transaction


def release(fingerprint: str, *, using: str = "") -> int:
    """Lift the quarantine of ``fingerprint`` and make its jobs available; how many jobs."""
    using = using or alias()
    with write_transaction(using):
        lift(fingerprint, using=using)
        return release_jobs(Job.objects.using(using).filter(fingerprint=fingerprint))


def lift(fingerprint: str, *, using: str) -> bool:
    """Allow this content again: it may be enqueued and admitted. Whether it was quarantined."""
    return bool(Quarantine.objects.using(using).filter(fingerprint=fingerprint).delete()[0])


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
