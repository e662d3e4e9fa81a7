"""How many jobs go before this one: counted along the ready index, and only up to a bound."""

from __future__ import annotations

from typing import Any

from headgate_django.core.allocation import Group, Stream
from headgate_django.core.states import State
from headgate_django.gate.streams import streams_of
from headgate_django.models.job import Job
from headgate_django.models.store import fetch, literals

MAX_POSITION = 1_000

# Two ranges of the index, each read from its beginning: an OR of them would read the whole backlog.
_HIGHER = "priority > %s"
_EARLIER = "priority = %s AND (scheduled_at_ms, id) < (%s, %s)"
_COUNT = f"""
SELECT count(*) FROM (
    SELECT 1 FROM headgate_django_job
    WHERE state = {literals(State.AVAILABLE)}
      AND queue = %s AND partition_key = %s AND rate_class = %s AND sticky_worker = %s
      AND {{condition}}
    LIMIT %s
) ahead
"""


def position_of(job: Job, using: str) -> int:
    """Its place, from 1, among the jobs of its partition that its worker may take; 1,001 is "behind 1,000"."""
    ahead = 0
    for stream in streams_of(Group(job.queue, job.partition_key), job.sticky_worker, using=using):
        ahead += _count(stream, _HIGHER, [job.priority], MAX_POSITION - ahead, using)
        ahead += _count(stream, _EARLIER, [job.priority, job.scheduled_at_ms, job.id], MAX_POSITION - ahead, using)
    return ahead + 1


def _count(stream: Stream, condition: str, params: list[Any], limit: int, using: str) -> int:
    rows = fetch(using, _COUNT.format(condition=condition), [*stream, *params, limit])
    return int(rows[0][0])
