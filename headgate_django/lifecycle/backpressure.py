"""Backpressure: a capped queue takes no more unfinished jobs than it may, whoever produces at the same time."""

from __future__ import annotations

from collections.abc import Sequence

from headgate_django.core.states import State
from headgate_django.exceptions import QueueFull
from headgate_django.models.job import DEFERRED
from headgate_django.models.store import execute, fetch, indexed_by, literals

# One range of an index for each kind of unfinished job. The ORDER BY names the index, so that no planner reads the
# table instead.
_READY = "queue, partition_key, rate_class, sticky_worker, priority DESC, scheduled_at_ms, id"
_RANGES = (
    (f"state = '{State.AVAILABLE}'", _READY, "headgate_job_ready"),
    (f"state IN ({literals(*DEFERRED)})", "queue, state", "headgate_job_deferred"),
    (f"state = '{State.RUNNING}'", "lease_expires_at_ms, id", "headgate_job_leased"),
)
_RANGE = """
SELECT count(*) FROM (
    SELECT 1 FROM headgate_django_job {index} WHERE {states} AND queue = %s ORDER BY {order} LIMIT %s
) found
"""


def lock_queues(queues: Sequence[str], using: str) -> None:
    """Lock the policy rows, on SQLite the database, so that concurrent producers count one after the other.

    An UPDATE, not a SELECT: a transaction that sees an old snapshot fails here instead of counting what it sees.
    """
    for queue in queues:
        execute(using, "UPDATE headgate_django_queue SET name = name WHERE name = %s", [queue])


def require_room(queue: str, incoming: int, using: str) -> None:
    """Raise QueueFull unless the queue, whose row is locked, takes ``incoming`` more jobs."""
    rows = fetch(using, "SELECT max_unfinished_jobs FROM headgate_django_queue WHERE name = %s", [queue])
    limit = rows[0][0] if rows else None
    if limit is None or not incoming:
        return
    current = unfinished(queue, limit + 1, using)
    if current + incoming > limit:
        raise QueueFull(queue, limit, current, incoming)


def unfinished(queue: str, bound: int, using: str) -> int:
    """How many unfinished jobs the queue holds, counted no further than ``bound``. One statement."""
    counts = " UNION ALL ".join(
        _RANGE.format(states=states, order=order, index=indexed_by(using, index))
        for states, order, index in _RANGES
    )
    rows = fetch(using, counts, [queue, bound] * len(_RANGES))
    return min(bound, sum(int(row[0]) for row in rows))
