"""Step 2: which streams have available work, by a skip scan over the ready index.

Each probe jumps to the next distinct (partition, rate class, sticky) of a queue, so the cost depends on the
number of streams looked at, at most 256 a call, and never on how many jobs wait in them. A rotating cursor
in the worker's memory continues where the last call stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headgate_django.core.allocation import Stream
from headgate_django.core.states import State
from headgate_django.models.store import fetch, is_postgres, literals

MAX_STREAMS = 256
MIN_STREAMS_PER_QUEUE = 16
MAX_QUEUES = 256

_AFTER_ALL = "\U0010ffff"
"""Sorts after every storable sticky worker, which is ASCII."""

Bound = tuple[str, str, str]
_START: Bound = ("", "", "")


@dataclass
class Cursor:
    """Where the next scan of each queue begins; the memory of one worker."""

    position: dict[str, Bound] = field(default_factory=dict)


def find_streams(
    queues: Sequence[str], worker_id: str, cursor: Cursor, *, using: str, portable: bool = False
) -> list[Stream]:
    """The streams of these queues that have work this worker may take: unpinned, or pinned to it."""
    budget = max(MIN_STREAMS_PER_QUEUE, MAX_STREAMS // max(len(queues), 1))
    scan = _scan_postgres if is_postgres(using) and not portable else _scan_portable
    found: list[Stream] = []
    for queue in queues:
        start = cursor.position.get(queue, _START)
        bounds, wrapped = scan(queue, start, worker_id, budget, using), False
        if start != _START and len(bounds) < budget:
            # The scan reached the end: begin again, up to where this one started.
            head = scan(queue, _START, worker_id, budget - len(bounds), using)
            bounds, wrapped = bounds + [bound for bound in head if bound < start], True
        full = len(bounds) >= budget
        cursor.position[queue] = _next(bounds[-1], worker_id) if full and not wrapped else _START
        found += [Stream(queue, *bound) for bound in bounds if bound[2] in ("", worker_id)]
    return found


def find_queues(*, using: str) -> list[str]:
    """The queues that have available work, for a worker that serves every queue."""
    found: list[str] = []
    while len(found) < MAX_QUEUES:
        rows = fetch(
            using,
            f"SELECT queue FROM headgate_django_job WHERE state = {literals(State.AVAILABLE)}"
            " AND queue > %s ORDER BY queue LIMIT 1",
            [found[-1] if found else ""],
        )
        if not rows:
            break
        found.append(rows[0][0])
    return found


def _next(bound: Bound, worker_id: str) -> Bound:
    # Of one (partition, rate class) only the streams '' and worker_id matter: skip the rest.
    partition_key, rate_class, sticky = bound
    return (partition_key, rate_class, worker_id if sticky < worker_id else _AFTER_ALL)


_PROBE = f"""
SELECT partition_key, rate_class, sticky_worker
FROM headgate_django_job
WHERE state = {literals(State.AVAILABLE)}
  AND queue = %s
  AND (partition_key, rate_class, sticky_worker) >= (%s, %s, %s)
ORDER BY partition_key, rate_class, sticky_worker
LIMIT 1
"""


def _scan_portable(queue: str, start: Bound, worker_id: str, limit: int, using: str) -> list[Bound]:
    bounds: list[Bound] = []
    while len(bounds) < limit:
        rows = fetch(using, _PROBE, [queue, *start])
        if not rows:
            break
        bounds.append(rows[0])
        start = _next(rows[0], worker_id)
    return bounds


_SKIP_SCAN = f"""
WITH RECURSIVE stream AS (
    (
        SELECT partition_key, rate_class, sticky_worker
        FROM headgate_django_job
        WHERE state = {literals(State.AVAILABLE)}
          AND queue = %(queue)s
          AND (partition_key, rate_class, sticky_worker) >= (%(partition)s, %(class)s, %(sticky)s)
        ORDER BY partition_key, rate_class, sticky_worker
        LIMIT 1
    )
    UNION ALL
    SELECT following.*
    FROM stream
    CROSS JOIN LATERAL (
        SELECT job.partition_key, job.rate_class, job.sticky_worker
        FROM headgate_django_job job
        WHERE job.state = {literals(State.AVAILABLE)}
          AND job.queue = %(queue)s
          AND (job.partition_key, job.rate_class, job.sticky_worker) >= (
              stream.partition_key,
              stream.rate_class,
              CASE WHEN stream.sticky_worker < %(worker)s THEN %(worker)s ELSE %(after_all)s END
          )
        ORDER BY job.partition_key, job.rate_class, job.sticky_worker
        LIMIT 1
    ) following
)
SELECT partition_key, rate_class, sticky_worker FROM stream LIMIT %(limit)s
"""


def _scan_postgres(queue: str, start: Bound, worker_id: str, limit: int, using: str) -> list[Bound]:
    from django.db import connections

    params: dict[str, str | int] = {
        "queue": queue,
        "partition": start[0],
        "class": start[1],
        "sticky": start[2],
        "worker": worker_id,
        "after_all": _AFTER_ALL,
        "limit": limit,
    }
    with connections[using].cursor() as cursor:
        cursor.execute(_SKIP_SCAN, params)
        return list(cursor.fetchall())
