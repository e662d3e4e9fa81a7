"""The saturation strategy ``cancel_running``: the newest wins, and the oldest running job makes room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from headgate_django.core.admission import Displacement
from headgate_django.core.allocation import Stream
from headgate_django.core.states import Event, State
from headgate_django.core.turnstile import Ceiling, Scope
from headgate_django.models.job import Job
from headgate_django.models.store import fetch, skip_locked

DISPLACED = ("Displaced", "cancelled to make room for a newer job", "displaced")


def displace(wanted: Sequence[Displacement], lease_id: str, now_ms: int, using: str) -> list[bool]:
    """Cancel one running job for each of ``wanted``, the oldest first, and fence it off; which places were freed.

    A running job that somebody else is ending at this moment is passed over. Claims of this admit, which run
    under ``lease_id``, are never the victims.
    """
    left = {}
    for key, count in Counter(_key(*one) for one in wanted).items():
        ceiling, stream = next(one for one in wanted if _key(*one) == key)
        left[key] = _cancel_oldest(ceiling, stream, count, lease_id, now_ms, using)
    freed = []
    for one in wanted:
        left[_key(*one)] -= 1
        freed.append(left[_key(*one)] >= 0)
    return freed


def _key(ceiling: Ceiling, stream: Stream) -> tuple[str, str]:
    seat = ceiling.seat(stream)
    assert seat is not None
    return seat


def _cancel_oldest(ceiling: Ceiling, stream: Stream, count: int, lease_id: str, now_ms: int, using: str) -> int:
    condition, params = {
        Scope.QUEUE: ("queue = %s", [stream.queue]),
        Scope.PARTITION: ("queue = %s AND partition_key = %s", [stream.queue, stream.partition_key]),
        Scope.RATE_CLASS: ("rate_class = %s", [stream.rate_class]),
    }[ceiling.scope]
    rows = fetch(
        using,
        f"SELECT id FROM headgate_django_job WHERE state = '{State.RUNNING}' AND {condition} AND lease_id <> %s"
        f" ORDER BY attempted_at_ms, id LIMIT %s {skip_locked(using)}",
        [*params, lease_id, count],
    )
    error_class, summary, group = DISPLACED
    jobs = Job.objects.using(using).filter(id__in=[row[0] for row in rows])
    return jobs.transition(
        Event.CANCEL, now_ms=now_ms, error_class=error_class, error_summary=summary, error_group=group
    )
