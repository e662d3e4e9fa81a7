"""Step 2: which streams have available work, by a skip scan over the ready index.

Each probe jumps to the next distinct (partition, rate class, sticky) of a queue, so the cost depends on the
number of streams looked at, never on how many jobs wait in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any

from django.db import connections

from headgate_django.core.allocation import Group, Stream
from headgate_django.core.states import State
from headgate_django.core.walk import AFTER_ALL, MAX_STREAMS, Bound, Cursor, Probe, Walk, next_bound
from headgate_django.models.store import fetch, is_postgres, literals

MAX_QUEUES = 256


def walk_streams(
    queues: Sequence[str], worker_id: str, cursor: Cursor, *, using: str, portable: bool = False
) -> Walk:
    """A walk round the streams of these queues that have available work."""
    scan = _scan_postgres if is_postgres(using) and not portable else _scan_portable
    return Walk(queues, worker_id, cursor, lambda probes: scan(probes, worker_id, using))


def streams_of(group: Group, worker_id: str, *, using: str) -> list[Stream]:
    """The streams of one partition that this worker may take."""
    queue, partition_key = group
    bounds = islice(_hops(queue, (partition_key, "", ""), worker_id, using), MAX_STREAMS)
    inside = takewhile(lambda bound: bound[0] == partition_key, bounds)
    return [Stream(queue, *bound) for bound in inside if bound[2] in ("", worker_id)]


def find_queues(cursor: Cursor, *, using: str) -> list[str]:
    """The queues that have available work, for a worker that serves every queue: up to 256, by turns."""
    found = _queues_after(cursor.queue, MAX_QUEUES, using)
    if cursor.queue and len(found) < MAX_QUEUES:
        head = _queues_after("", MAX_QUEUES - len(found), using)
        found += [queue for queue in head if queue <= cursor.queue]
    cursor.turn_to(found[-1] if len(found) >= MAX_QUEUES else "")
    return found


def _queues_after(queue: str, limit: int, using: str) -> list[str]:
    return [row[0] for row in fetch(using, _QUEUES, [queue, limit])]


_NEXT_QUEUE = f"""
    SELECT queue FROM headgate_django_job
    WHERE state = {literals(State.AVAILABLE)} AND queue > {{after}}
    ORDER BY queue
    LIMIT 1
"""
_QUEUES = f"""
WITH RECURSIVE found (queue) AS (
    SELECT ({_NEXT_QUEUE.format(after="%s")})
    UNION ALL
    SELECT ({_NEXT_QUEUE.format(after="found.queue")}) FROM found WHERE found.queue IS NOT NULL
)
SELECT queue FROM found WHERE queue IS NOT NULL LIMIT %s
"""


_PROBE = f"""
SELECT partition_key, rate_class, sticky_worker
FROM headgate_django_job
WHERE state = {literals(State.AVAILABLE)}
  AND queue = %s
  AND (partition_key, rate_class, sticky_worker) >= (%s, %s, %s)
ORDER BY partition_key, rate_class, sticky_worker
LIMIT 1
"""


def _scan_portable(probes: Sequence[Probe], worker_id: str, using: str) -> Mapping[str, list[Bound]]:
    return {queue: list(islice(_hops(queue, start, worker_id, using), limit)) for queue, start, limit in probes}


def _hops(queue: str, start: Bound, worker_id: str, using: str) -> Iterator[Bound]:
    with connections[using].cursor() as cursor:
        while True:
            cursor.execute(_PROBE, [queue, *start])
            bound = cursor.fetchone()
            if bound is None:
                return
            yield bound
            start = next_bound(bound, worker_id)


_SKIP_SCAN = f"""
SELECT probe.queue, stream.*
FROM unnest(
    %(queues)s::text[], %(partitions)s::text[], %(classes)s::text[], %(stickies)s::text[], %(limits)s::int[]
) AS probe (queue, partition_key, rate_class, sticky_worker, wanted)
CROSS JOIN LATERAL (
    WITH RECURSIVE hop AS (
        (
            SELECT job.partition_key, job.rate_class, job.sticky_worker
            FROM headgate_django_job job
            WHERE job.state = {literals(State.AVAILABLE)}
              AND job.queue = probe.queue
              AND (job.partition_key, job.rate_class, job.sticky_worker)
                  >= (probe.partition_key, probe.rate_class, probe.sticky_worker)
            ORDER BY job.partition_key, job.rate_class, job.sticky_worker
            LIMIT 1
        )
        UNION ALL
        SELECT following.*
        FROM hop
        CROSS JOIN LATERAL (
            SELECT job.partition_key, job.rate_class, job.sticky_worker
            FROM headgate_django_job job
            WHERE job.state = {literals(State.AVAILABLE)}
              AND job.queue = probe.queue
              AND (job.partition_key, job.rate_class, job.sticky_worker) >= (
                  hop.partition_key,
                  hop.rate_class,
                  CASE WHEN hop.sticky_worker < %(worker)s THEN %(worker)s ELSE %(after_all)s END
              )
            ORDER BY job.partition_key, job.rate_class, job.sticky_worker
            LIMIT 1
        ) following
    )
    SELECT * FROM hop LIMIT probe.wanted
) stream
"""


def _scan_postgres(probes: Sequence[Probe], worker_id: str, using: str) -> Mapping[str, list[Bound]]:
    params: dict[str, Any] = {
        "queues": [probe.queue for probe in probes],
        "partitions": [probe.start[0] for probe in probes],
        "classes": [probe.start[1] for probe in probes],
        "stickies": [probe.start[2] for probe in probes],
        "limits": [probe.limit for probe in probes],
        "worker": worker_id,
        "after_all": AFTER_ALL,
    }
    answers: dict[str, list[Bound]] = {}
    with connections[using].cursor() as cursor:
        cursor.execute(_SKIP_SCAN, params)
        for queue, partition_key, rate_class, sticky_worker in cursor.fetchall():
            answers.setdefault(queue, []).append((partition_key, rate_class, sticky_worker))
    return answers
