"""Cancel and discard: an operator ends a job."""

from __future__ import annotations

from headgate_django.core.states import Event, State, sources
from headgate_django.models import clock
from headgate_django.models.job import JobQuerySet
from headgate_django.models.messages import notify_workers
from headgate_django.models.store import write_transaction


def cancel(jobs: JobQuerySet) -> int:
    """Cancel the selected unfinished jobs; how many.

    A running one loses its lease, and its late ack is refused. The worker that holds it is told after the commit:
    the handler learns of it at once on PostgreSQL, elsewhere at the next renewal.
    """
    jobs = jobs.for_write()
    with write_transaction(jobs.db):
        holders = _lock(jobs)
        moved = jobs.transition(Event.CANCEL, now_ms=clock.now_ms(jobs.db))
        notify_workers(holders, jobs.db)
    return moved


def _lock(jobs: JobQuerySet) -> set[str]:
    """The workers that run any of the jobs. All are locked, in the order of every verb, so that it stays true."""
    locked = jobs.filter(state__in=sources(Event.CANCEL)).order_by("pk").select_for_update()
    return {worker_id for state, worker_id in locked.values_list("state", "worker_id") if state == State.RUNNING}


def discard(jobs: JobQuerySet) -> int:
    """Delete the selected finished jobs with their payloads and attempts; how many."""
    jobs = jobs.for_write().finished()
    return jobs.transition(Event.DISCARD, now_ms=clock.now_ms(jobs.db))
