"""The saturation strategy ``cancel_running``: the newest wins, and the oldest running job makes room."""

from __future__ import annotations

from headgate_django.core.allocation import Stream
from headgate_django.core.states import Event, State
from headgate_django.core.turnstile import Ceiling
from headgate_django.gate.limits import counted_with
from headgate_django.models.job import Job
from headgate_django.models.store import fetch, literals, skip_locked

DISPLACED = ("Displaced", "cancelled to make room for a newer job", "displaced")


def displace(
    ceiling: Ceiling, stream: Stream, count: int, *, lease_id: str, now_ms: int, using: str
) -> list[Stream]:
    """Cancel the oldest running jobs that are counted where ``stream`` is, and fence them off; their streams.

    A running job that somebody else is ending at this moment is passed over. Claims of this admit, which run
    under ``lease_id``, are never the victims. Their workers are told once this is committed.
    """
    condition, params = counted_with(ceiling, stream)
    rows = fetch(
        using,
        "SELECT id, queue, partition_key, rate_class FROM headgate_django_job"
        f" WHERE state = {literals(State.RUNNING)} AND {condition} AND lease_id <> %s"
        f" ORDER BY attempted_at_ms, id LIMIT %s {skip_locked(using)}",
        [*params, lease_id, count],
    )
    error_class, summary, group = DISPLACED
    jobs = Job.objects.using(using).filter(id__in=[row[0] for row in rows])
    moved = jobs.transition(
        Event.CANCEL, now_ms=now_ms, error_class=error_class, error_summary=summary, error_group=group
    )
    return [Stream(queue, partition_key, rate_class, "") for _, queue, partition_key, rate_class in rows[:moved]]
