"""Promote: waiting jobs become available, because their time has come or because somebody says so."""

from __future__ import annotations

from headgate_django.core.states import Event
from headgate_django.lifecycle.wakeup import notify_after_commit
from headgate_django.models import clock
from headgate_django.models.job import JobQuerySet
from headgate_django.models.store import write_transaction


def promote(jobs: JobQuerySet) -> int:
    """Make the selected scheduled, pending and retryable jobs available now; how many."""
    jobs = jobs.for_write()
    using = jobs.db
    with write_transaction(using):
        now_ms = clock.now_ms(using)
        queues = set(jobs.order_by().values_list("queue", flat=True).distinct()[:100])
        moved = jobs.transition(Event.PROMOTE, now_ms=now_ms, scheduled_at_ms=now_ms)
        notify_after_commit(queues, using)
    return moved
