"""Step 4: the first jobs of the chosen streams, locked, merged into the order of their partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headgate_django.core.allocation import Group, Stream
from headgate_django.core.states import State
from headgate_django.models.store import fetch, is_postgres, literals, skip_locked


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """An available job that was drawn. Sorts by priority (higher first), scheduled time, id."""

    rank: tuple[int, int, str]
    group: Group
    rate_class: str
    weight: int
    deadline_ms: int
    quarantined: bool

    @property
    def id(self) -> str:
        """The job's id."""
        return self.rank[2]


# The ORDER BY names the whole index, so that no planner sorts; the equalities cost nothing.
_STREAM = f"""
SELECT job.id, job.priority, job.scheduled_at_ms, job.queue, job.partition_key, job.rate_class, job.weight,
       job.deadline_ms,
       EXISTS (SELECT 1 FROM headgate_django_quarantine q WHERE q.fingerprint = job.fingerprint) AS quarantined
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
    shares: Mapping[Group, int], streams: Sequence[Stream], *, using: str, portable: bool = False
) -> list[Candidate]:
    """The first ``shares[group]`` candidates of each group over its streams, in the group's order."""
    chosen = [(stream, shares[stream.group]) for stream in streams if shares.get(stream.group)]
    if not chosen:
        return []
    rows = (_draw_portable if portable or not is_postgres(using) else _draw_postgres)(chosen, using)
    drawn: dict[Group, list[Candidate]] = {}
    for row in rows:
        candidate = _candidate(row)
        drawn.setdefault(candidate.group, []).append(candidate)
    return [candidate for group, found in drawn.items() for candidate in sorted(found)[: shares[group]]]


def _candidate(row: tuple[Any, ...]) -> Candidate:
    job_id, priority, scheduled_at_ms, queue, partition_key, rate_class, weight, deadline_ms, quarantined = row
    return Candidate(
        rank=(-priority, scheduled_at_ms, job_id),
        group=Group(queue, partition_key),
        rate_class=rate_class,
        weight=weight,
        deadline_ms=deadline_ms,
        quarantined=bool(quarantined),
    )


def _draw_portable(chosen: Sequence[tuple[Stream, int]], using: str) -> list[tuple[Any, ...]]:
    sql = _PORTABLE.format(lock=skip_locked(using))
    return [row for stream, wanted in chosen for row in fetch(using, sql, [*stream, wanted])]


def _draw_postgres(chosen: Sequence[tuple[Stream, int]], using: str) -> list[tuple[Any, ...]]:
    columns = [list(column) for column in zip(*(stream for stream, _ in chosen), strict=True)]
    return fetch(using, _POSTGRES, [*columns, [wanted for _, wanted in chosen]])
