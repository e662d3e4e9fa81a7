"""How much waits where: bounded counts, whose cost does not grow with the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Count as Counted

from headgate_django.control.window import window
from headgate_django.core.states import WAITING, Event, State, sources
from headgate_django.models.job import Job, JobQuerySet
from headgate_django.models.store import begin_pinned, fetch, indexed_by, literals

MAX_COUNT = 10_000
"""A count stops here and is shown as "10,000+"."""
MAX_QUEUES = 50
"""Queues that one statement looks at."""
DUE = sources(Event.DUE)
READY = "headgate_job_ready"


@dataclass(frozen=True, slots=True)
class Count:
    """A bounded count. ``more`` says that there are, or may be, more."""

    number: int = 0
    more: bool = False

    def __str__(self) -> str:
        return f"{self.number:,}+" if self.more else f"{self.number:,}"


@dataclass(slots=True)
class Backlog:
    """One queue's unfinished and dead jobs, by state, and how long the oldest available job has waited.

    ``oldest_ms`` is a lower bound when the available jobs are more than are counted.
    """

    counts: dict[State, Count] = field(default_factory=dict)
    oldest_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Siblings:
    """The jobs of one content."""

    waiting: Count
    quarantined: Count


_KNOWN = f"""
WITH RECURSIVE known (queue) AS (
    SELECT first.queue
    FROM (
        SELECT queue FROM headgate_django_job {{index}} WHERE state = '{State.AVAILABLE}' ORDER BY queue LIMIT 1
    ) first
    UNION ALL
    SELECT (
        SELECT job.queue
        FROM headgate_django_job job {{index}}
        WHERE job.state = '{State.AVAILABLE}' AND job.queue > known.queue
        ORDER BY job.queue
        LIMIT 1
    )
    FROM known
    WHERE known.queue IS NOT NULL
)
SELECT queue FROM known WHERE queue IS NOT NULL LIMIT %s
"""
# The ORDER BY names the whole ready index, so that no planner sorts or scans something else.
_AVAILABLE = f"""
SELECT %s, count(*), min(scheduled_at_ms)
FROM (
    SELECT scheduled_at_ms
    FROM headgate_django_job {{index}}
    WHERE state = '{State.AVAILABLE}' AND queue = %s
    ORDER BY queue, partition_key, rate_class, sticky_worker, priority DESC, scheduled_at_ms, id
    LIMIT %s
) waiting
"""
_SAMPLE = """
SELECT queue, state, count(*)
FROM (
    SELECT queue, state
    FROM headgate_django_job
    WHERE {where}
    ORDER BY {order}
    LIMIT %s
) sample
GROUP BY queue, state
"""
# Each condition is that of a partial index, word for word: SQLite compares them as they are written.
_SAMPLES = (
    ((State.RUNNING,), f"state = '{State.RUNNING}'", "lease_expires_at_ms, id"),
    (DUE, f"state IN ({literals(*DUE)})", "scheduled_at_ms, id"),
    (
        (State.ARCHIVED,),
        f"state = '{State.ARCHIVED}' AND finalized_at_ms IS NOT NULL",
        "state DESC, finalized_at_ms DESC, id DESC",
    ),
)
COUNTED = (State.AVAILABLE, *(state for states, _, _ in _SAMPLES for state in states))
"""The states that an index makes countable."""


def queues_with_work(using: str, limit: int = MAX_QUEUES) -> list[str]:
    """Queues that have available jobs, by a skip scan: one statement, one index probe a queue."""
    return [row[0] for row in fetch(using, _KNOWN.format(index=indexed_by(using, READY)), [limit])]


def backlogs(queues: Sequence[str], using: str) -> dict[str, Backlog]:
    """The backlog of each of these queues, at most 50, in five statements."""
    queues = queues[:MAX_QUEUES]
    found = {queue: Backlog(dict.fromkeys(COUNTED, Count())) for queue in queues}
    if not queues:
        return found
    with transaction.atomic(using=using, savepoint=False):
        _count(found, queues, using)
    return found


def _count(found: dict[str, Backlog], queues: Sequence[str], using: str) -> None:
    now_ms = begin_pinned(using)
    params = [value for queue in queues for value in (queue, queue, MAX_COUNT + 1)]
    available = _AVAILABLE.format(index=indexed_by(using, READY))
    for queue, number, since_ms in fetch(using, " UNION ALL ".join([available] * len(queues)), params):
        found[queue].counts[State.AVAILABLE] = _bounded(number)
        found[queue].oldest_ms = None if since_ms is None else max(0, now_ms - since_ms)
    for states, where, order in _SAMPLES:
        rows = fetch(using, _SAMPLE.format(where=where, order=order), [MAX_COUNT + 1])
        _spread(rows, states, found)


def siblings(fingerprints: Sequence[str], using: str) -> dict[str, Siblings]:
    """Jobs of each content that wait, and that are quarantined, among the newest of each; in four statements."""
    jobs = Job.objects.using(using).filter(fingerprint__in=fingerprints)
    newest, last = window(using), window(using, State.QUARANTINED)
    waiting = _by_content(jobs.filter(newest, state__in=WAITING))
    quarantined = _by_content(jobs.in_state(State.QUARANTINED).filter(last))
    return {
        one: Siblings(Count(waiting.get(one, 0), bool(newest)), Count(quarantined.get(one, 0), bool(last)))
        for one in fingerprints
    }


def _by_content(jobs: JobQuerySet) -> dict[str, int]:
    rows = jobs.order_by().values_list("fingerprint").annotate(count=Counted("pk"))
    return dict(rows)


def _spread(rows: list[tuple[Any, ...]], states: tuple[State, ...], found: dict[str, Backlog]) -> None:
    more = sum(number for _, _, number in rows) > MAX_COUNT
    seen = {(queue, state): number for queue, state, number in rows}
    for queue, backlog in found.items():
        for state in states:
            backlog.counts[state] = Count(min(seen.get((queue, state), 0), MAX_COUNT), more)


def _bounded(number: int) -> Count:
    return Count(min(number, MAX_COUNT), number > MAX_COUNT)
