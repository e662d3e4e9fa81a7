"""Cancel and discard: an operator ends a job."""

from __future__ import annotations

from headgate_django.core.states import Event
from headgate_django.models import clock
from headgate_django.models.job import JobQuerySet


def cancel(jobs: JobQuerySet) -> int:
    """Cancel the selected unfinished jobs; how many.

    A running one loses its lease, and its late ack is refused. The worker that holds it is told after the commit:
    the handler learns of it at once on PostgreSQL, elsewhere at the next renewal.
    """
    jobs = jobs.for_write()
    return jobs.transition(Event.CANCEL, now_ms=clock.now_ms(jobs.db))


def discard(jobs: JobQuerySet) -> int:
    """Delete the selected finished jobs with their payloads and attempts; how many."""
    jobs = jobs.for_write().finished()
    return jobs.transition(Event.DISCARD, now_ms=clock.now_ms(jobs.db))
