"""Step 4: the first jobs of the chosen streams, locked, merged into the order of their partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections

from headgate_django.core.allocation import Group, Stream
from headgate_django.core.states import State
from headgate_django.models.store import fetch, is_postgres, literals, skip_locked

MIN_DRAWN = 8
"""Jobs drawn from each of many streams of one partition, when its share is at least that."""


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """An available job that was drawn. Sorts by priority (higher first), scheduled time, id."""

    rank: tuple[int, int, str]
    group: Group
    rate_class: str
    weight: int
    deadline_ms: int
    quarantined: str
    """Its fingerprint, if that is quarantined."""

    @property
    def id(self) -> str:
        """The job's id."""
        return self.rank[2]


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the streams gave: candidates in the order of their group, and the groups with nothing beyond them."""

    candidates: list[Candidate]
    dry: frozenset[Group]


Request = tuple[Stream, int]
Row = tuple[Any, ...]

# The ORDER BY names the whole index, so that no planner sorts; the equalities cost nothing.
_STREAM = f"""
SELECT job.id, job.priority, job.scheduled_at_ms, job.queue, job.partition_key, job.rate_class, job.weight,
       job.deadline_ms,
       (SELECT q.fingerprint FROM headgate_django_quarantine q WHERE q.fingerprint = job.fingerprint) AS poison,
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
    """The first candidates of each group that has a share, over its streams; ``ahead`` more in all.

    Of a group with many streams a round may draw fewer than its share, never more out of order: what is left
    is for the next round.
    """
    requests = _requests(shares, streams, ahead)
    if not requests:
        return Drawn([], frozenset())
    rows = (_draw_portable if portable or not is_postgres(using) else _draw_postgres)(requests, using)
    return _merge(requests, rows)


def _requests(shares: Mapping[Group, int], streams: Sequence[Stream], ahead: int) -> list[Request]:
    # Drawn rows are locked, so a partition of many rate classes must not draw its whole share from each.
    chosen = [stream for stream in streams if shares.get(stream.group)]
    widths = Counter(stream.group for stream in chosen)
    extra = -(-ahead // max(1, len(chosen)))
    requests = []
    for stream in chosen:
        share = shares[stream.group]
        even = -(-2 * share // widths[stream.group])
        requests.append((stream, min(share, max(MIN_DRAWN, even)) + extra))
    return requests


def _merge(requests: Sequence[Request], rows: Iterable[Row]) -> Drawn:
    drawn: dict[Stream, list[Candidate]] = {stream: [] for stream, _ in requests}
    for row in rows:
        candidate = _candidate(row)
        drawn[Stream(*candidate.group, candidate.rate_class, row[-1])].append(candidate)
    groups: dict[Group, list[Candidate]] = {}
    horizons: dict[Group, Candidate] = {}
    for stream, wanted in requests:
        found = drawn[stream]
        groups.setdefault(stream.group, []).extend(found)
        if len(found) >= wanted:
            # Behind its last candidate this stream may hold one that goes before the other streams' next.
            last = max(found)
            horizons[stream.group] = min(last, horizons.get(stream.group, last))
    candidates = [
        candidate
        for group, found in groups.items()
        for candidate in sorted(found)
        if group not in horizons or candidate <= horizons[group]
    ]
    return Drawn(candidates, frozenset(groups.keys() - horizons.keys()))


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


def _draw_portable(requests: Sequence[Request], using: str) -> list[Row]:
    sql = _PORTABLE.format(lock=skip_locked(using))
    rows: list[Row] = []
    with connections[using].cursor() as cursor:
        for stream, wanted in requests:
            cursor.execute(sql, [*stream, wanted])
            rows += cursor.fetchall()
    return rows


def _draw_postgres(requests: Sequence[Request], using: str) -> list[Row]:
    columns = [list(column) for column in zip(*(stream for stream, _ in requests), strict=True)]
    return fetch(using, _POSTGRES, [*columns, [wanted for _, wanted in requests]])
