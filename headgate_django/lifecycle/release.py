"""Release: an operator vouches for quarantined content."""

from __future__ import annotations

from headgate_django.core.states import Event
from headgate_django.lifecycle.wakeup import notify_after_commit
from headgate_django.models import clock
from headgate_django.models.job import Job
from headgate_django.models.quarantine import Quarantine
from headgate_django.models.store import alias, write_transaction


def release(fingerprint: str, *, using: str = "") -> int:
    """Lift the quarantine of ``fingerprint`` and make its jobs available; how many jobs.

    What the quarantine counted starts again at 0; otherwise the next crash would quarantine at once.
    """
    using = using or alias()
    with write_transaction(using):
        now_ms = clock.now_ms(using)
        Quarantine.objects.using(using).filter(fingerprint=fingerprint).delete()
        jobs = Job.objects.using(using).filter(fingerprint=fingerprint, finalized_at_ms__isnull=False)
        queues = set(jobs.order_by().values_list("queue", flat=True).distinct()[:100])
        moved = jobs.transition(Event.RELEASE, now_ms=now_ms, scheduled_at_ms=now_ms, crash_attempt=0)
        notify_after_commit(queues, using)
    return moved
