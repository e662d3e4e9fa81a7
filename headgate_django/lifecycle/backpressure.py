"""Backpressure: a capped queue takes no more unfinished jobs than it may, whoever produces at the same time."""

from __future__ import annotations

from collections.abc import Sequence

from headgate_django.core.states import State
from headgate_django.exceptions import QueueFull
from headgate_django.models.job import DEFERRED
from headgate_django.models.store import execute, fetch, indexed_by, is_postgres, literals

# One range of an index for each kind of unfinished job. The ORDER BY names the index, so that no planner reads the
# table instead.
_READY = "queue, partition_key, rate_class, sticky_worker, priority DESC, scheduled_at_ms, id"
_RANGES = (
    (f"state = '{State.AVAILABLE}'", _READY, "headgate_job_ready"),
    (f"state IN ({literals(*DEFERRED)})", "queue, state", "headgate_job_deferred"),
    (f"state = '{State.RUNNING}'", "lease_expires_at_ms, id", "headgate_job_leased"),
)
_RANGE = """
SELECT count(*) AS number FROM (
    SELECT 1 FROM headgate_django_job {index} WHERE {states} AND queue = %s ORDER BY {order} LIMIT %s
) found
"""
# A planner that expects few rows would collect and sort all there are before the LIMIT. This is the caller's
# transaction: the settings are put back by the statement that counts.
_PINNED = ("enable_seqscan", "enable_bitmapscan")
_LIMIT = "SELECT max_unfinished_jobs{pins} FROM headgate_django_queue WHERE name = %s"
_PINS = "".join(f", current_setting('{setting}')" for setting in _PINNED) + "".join(
    f", CASE WHEN max_unfinished_jobs IS NOT NULL THEN set_config('{setting}', 'off', true) END"
    for setting in _PINNED
)
_UNPINS = "".join(f", set_config('{setting}', %s, true)" for setting in _PINNED)


def lock_queues(queues: Sequence[str], using: str) -> None:
    """Lock the policy rows, on SQLite the database, so that concurrent producers count one after the other.

    An UPDATE, not a SELECT: a transaction that sees an old snapshot fails here instead of counting what it sees.
    """
    for queue in queues:
        execute(using, "UPDATE headgate_django_queue SET name = name WHERE name = %s", [queue])


def require_room(queue: str, incoming: int, using: str) -> None:
    """Raise QueueFull unless the queue, whose row is locked, takes ``incoming`` more jobs."""
    if not incoming:
        return
    pins, unpins = (_PINS, _UNPINS) if is_postgres(using) else ("", "")
    rows = fetch(using, _LIMIT.format(pins=pins), [queue])
    if not rows or rows[0][0] is None:
        return
    limit, *planner = rows[0][: 1 + len(_PINNED)]
    ranges = " UNION ALL ".join(
        _RANGE.format(states=states, order=order, index=indexed_by(using, index))
        for states, order, index in _RANGES
    )
    # No further than one beyond the limit, however much is there.
    params = [*planner, *[queue, limit + 1] * len(_RANGES)]
    counted = fetch(using, f"SELECT sum(number){unpins} FROM ({ranges}) ranges", params)
    current = min(limit + 1, int(counted[0][0]))
    if current + incoming > limit:
        raise QueueFull(queue, limit, current, incoming)
