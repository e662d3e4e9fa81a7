"""Step 4: the first jobs of the chosen streams, locked, merged into the order of their partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connections

from headgate_django.core.allocation import Group, Stream
from headgate_django.core.drawing import Candidate, Drawn, Request, merge, requests
from headgate_django.core.states import State
from headgate_django.models.store import fetch, is_postgres, literals, skip_locked

Row = tuple[Any, ...]

# The ORDER BY names the whole index, so that no planner sorts; the equalities cost nothing.
_STREAM = f"""
SELECT job.id, job.priority, job.scheduled_at_ms, job.queue, job.partition_key, job.rate_class, job.weight,
       job.deadline_ms,
       (SELECT q.fingerprint FROM headgate_django_quarantine q
        WHERE q.fingerprint = job.fingerprint AND q.canary_job_id <> job.id AND NOT q.is_lifted) AS poison,
       job.sticky_worker
FROM headgate_django_job job
WHERE job.state = {literals(State.AVAILABLE)}
  AND job.queue = {{queue}}
  AND job.partition_key = {{partition}}
  AND job.rate_class = {{rate_class}}
  AND job.sticky_worker = {{sticky}}
ORDER BY job.priority DESC, job.scheduled_at_ms, job.id
LIMIT {{limit}}
{{lock}}
"""
_PORTABLE = _STREAM.format(queue="%s", partition="%s", rate_class="%s", sticky="%s", limit="%s", lock="{lock}")
_POSTGRES = f"""
SELECT drawn.*
FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::int[])
    AS chosen (queue, partition_key, rate_class, sticky_worker, wanted)
CROSS JOIN LATERAL (
    {
    _STREAM.format(
        queue="chosen.queue",
        partition="chosen.partition_key",
        rate_class="chosen.rate_class",
        sticky="chosen.sticky_worker",
        limit="chosen.wanted",
        lock="FOR UPDATE OF job SKIP LOCKED",
    )
}
) drawn
"""


def draw(
    shares: Mapping[Group, int], streams: Sequence[Stream], *, ahead: int = 0, using: str, portable: bool = False
) -> Drawn:
    """The first candidates of each group that has a share, over its streams; ``ahead`` more in all."""
    wanted = requests(shares, streams, ahead)
    if not wanted:
        return Drawn([], frozenset())
    drawn: dict[Stream, list[Candidate]] = {}
    for row in (_draw_portable if portable or not is_postgres(using) else _draw_postgres)(wanted, using):
        candidate = _candidate(row)
        drawn.setdefault(Stream(*candidate.group, candidate.rate_class, row[-1]), []).append(candidate)
    return merge(wanted, drawn)


def _candidate(row: Row) -> Candidate:
    job_id, priority, scheduled_at_ms, queue, partition_key, rate_class, weight, deadline_ms, quarantined, _ = row
    return Candidate(
        rank=(-priority, scheduled_at_ms, job_id),
        group=Group(queue, partition_key),
        rate_class=rate_class,
        weight=weight,
        deadline_ms=deadline_ms,
        quarantined=quarantined or "",
    )


def _draw_portable(wanted: Sequence[Request], using: str) -> list[Row]:
    sql = _PORTABLE.format(lock=skip_locked(using))
    rows: list[Row] = []
    with connections[using].cursor() as cursor:
        for stream, count in wanted:
            cursor.execute(sql, [*stream, count])
            rows += cursor.fetchall()
    return rows


def _draw_postgres(wanted: Sequence[Request], using: str) -> list[Row]:
    columns = [list(column) for column in zip(*(stream for stream, _ in wanted), strict=True)]
    return fetch(using, _POSTGRES, [*columns, [count for _, count in wanted]])
