"""Step 2: which streams have available work, by a skip scan over the ready index.

Each probe jumps to the next distinct (partition, rate class, sticky) of a queue, so the cost depends on the
number of streams looked at, never on how many jobs wait in them. An admit looks at a window of 256 streams,
and at further windows only while it has free capacity; the next admit continues where this one stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Any, NamedTuple

from django.db import connections

from headgate_django.core.allocation import Group, Stream
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
    """Where the next admit's look begins; the memory of one worker."""

    position: dict[str, Bound] = field(default_factory=dict)
    queue: str = ""


class _Probe(NamedTuple):
    queue: str
    start: Bound
    limit: int


@dataclass
class _Lap:
    """One queue's way round: from where the last admit stopped to the end, then from the beginning to there."""

    left: list[tuple[Bound, Bound | None]]

    @classmethod
    def starting_at(cls, start: Bound) -> _Lap:
        """The whole way round."""
        return cls([(start, None)] if start == _START else [(start, None), (_START, start)])

    def advance(self, bounds: list[Bound], limit: int, worker_id: str) -> list[Bound]:
        """Go past ``bounds``, the answer to a probe of ``limit``; those that belong to this lap."""
        (_, stop), *rest = self.left
        inside = sorted(bound for bound in bounds if stop is None or bound < stop)
        self.left = rest if len(inside) < limit else [(_next(inside[-1], worker_id), stop), *rest]
        return inside


class Walk:
    """One admit's way round the streams that have work this worker may take: unpinned, or pinned to it."""

    def __init__(
        self, queues: Sequence[str], worker_id: str, cursor: Cursor, *, using: str, portable: bool = False
    ) -> None:
        self._worker_id = worker_id
        self._cursor = cursor
        self._using = using
        self._scan = _scan_postgres if is_postgres(using) and not portable else _scan_portable
        self._budget = max(MIN_STREAMS_PER_QUEUE, MAX_STREAMS // max(len(queues), 1))
        self._laps = {queue: _Lap.starting_at(cursor.position.get(queue, _START)) for queue in queues}

    @property
    def done(self) -> bool:
        """Whether every stream was seen."""
        return not any(lap.left for lap in self._laps.values())

    def window(self) -> list[Stream]:
        """The next streams: up to 256, shared evenly between the queues, but at least 16 of each."""
        found: list[Stream] = []
        room = {queue: self._budget for queue, lap in self._laps.items() if lap.left}
        while room:
            probes = [_Probe(queue, self._laps[queue].left[0][0], limit) for queue, limit in room.items()]
            answers = self._scan(probes, self._worker_id, self._using)
            for queue, _, limit in probes:
                inside = self._laps[queue].advance(answers.get(queue, []), limit, self._worker_id)
                room[queue] -= len(inside)
                found += [Stream(queue, *bound) for bound in inside if bound[2] in ("", self._worker_id)]
            room = {queue: limit for queue, limit in room.items() if limit and self._laps[queue].left}
        self._remember()
        return found

    def _remember(self) -> None:
        for queue, lap in self._laps.items():
            if lap.left:
                self._cursor.position[queue] = lap.left[0][0]
            else:
                self._cursor.position.pop(queue, None)


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
    cursor.queue = found[-1] if len(found) >= MAX_QUEUES else ""
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


def _scan_portable(probes: Sequence[_Probe], worker_id: str, using: str) -> dict[str, list[Bound]]:
    return {queue: list(islice(_hops(queue, start, worker_id, using), limit)) for queue, start, limit in probes}


def _hops(queue: str, start: Bound, worker_id: str, using: str) -> Iterator[Bound]:
    with connections[using].cursor() as cursor:
        while True:
            cursor.execute(_PROBE, [queue, *start])
            bound = cursor.fetchone()
            if bound is None:
                return
            yield bound
            start = _next(bound, worker_id)


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


def _scan_postgres(probes: Sequence[_Probe], worker_id: str, using: str) -> dict[str, list[Bound]]:
    params: dict[str, Any] = {
        "queues": [probe.queue for probe in probes],
        "partitions": [probe.start[0] for probe in probes],
        "classes": [probe.start[1] for probe in probes],
        "stickies": [probe.start[2] for probe in probes],
        "limits": [probe.limit for probe in probes],
        "worker": worker_id,
        "after_all": _AFTER_ALL,
    }
    answers: dict[str, list[Bound]] = {}
    with connections[using].cursor() as cursor:
        cursor.execute(_SKIP_SCAN, params)
        for queue, partition_key, rate_class, sticky_worker in cursor.fetchall():
            answers.setdefault(queue, []).append((partition_key, rate_class, sticky_worker))
    return answers
