"""How long the oldest job of a queue that could run has waited: exact at any depth, by a skip scan.

The ready index is ordered by stream, then priority, then time: the first job of each stream and priority is its
oldest. So the cost depends on how many of these groups there are, never on how many jobs wait. Jobs that are due
wait too: they become available only when some worker asks the gate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from django.db import connections, transaction

from headgate_django.control.backlog import DUE, READY
from headgate_django.core.states import State
from headgate_django.models.limits import RateClass
from headgate_django.models.queue import Partition
from headgate_django.models.store import begin_pinned, fetch, indexed_by, is_postgres, literals

MAX_GROUPS = 2_000
"""Streams and priorities of one queue that are looked at."""
MAX_DUE = 1_000
"""Due jobs that are looked at: those that have been due for the longest time."""

Group = tuple[str, str, str, int, int]
"""Partition, rate class, sticky worker, priority, and since when its oldest job could run."""


@dataclass(frozen=True, slots=True)
class Wait:
    """``more`` says that not all was looked at: there may be a job that has waited longer."""

    oldest_ms: int
    more: bool = False


class Due(NamedTuple):
    """Due jobs of one queue, partition and rate class that no gate has made available yet."""

    queue: str
    partition_key: str
    rate_class: str
    since_ms: int
    number: int


def due_jobs(*, using: str) -> list[Due]:
    """Where jobs are due and not available yet, and since when."""
    sql = _DUE.format(index=indexed_by(using, "headgate_job_due"))
    with transaction.atomic(using=using):
        now_ms = begin_pinned(using)
        found = [Due(*row) for row in fetch(using, sql, [now_ms, MAX_DUE])]
        # The pins must not outlast this: the caller may be in a transaction.
        transaction.set_rollback(True, using=using)
    return found


def longest_waits(queues: Sequence[str], now_ms: int, *, using: str) -> dict[str, Wait]:
    """The longest wait of a job that could run in each queue, pauses of partitions and rate classes aside.

    Queues in which nothing waits are left out.
    """
    scan = _scan_postgres if is_postgres(using) else _scan_portable
    partitions = Partition.objects.using(using).filter(queue__in=queues, paused=True)
    paused = set(partitions.values_list("queue", "key"))
    classes = set(RateClass.objects.using(using).filter(paused=True).values_list("name", flat=True))
    due = due_jobs(using=using)
    more_due = sum(one.number for one in due) >= MAX_DUE
    found = {}
    for queue in queues:
        groups = list(scan(queue, using))
        waiting = [(key, rate_class, since_ms) for key, rate_class, _, _, since_ms in groups]
        waiting += [one[1:4] for one in due if one.queue == queue]
        since = [
            since_ms
            for key, rate_class, since_ms in waiting
            if (queue, key) not in paused and rate_class not in classes
        ]
        if since:
            found[queue] = Wait(max(0, now_ms - min(since)), more=more_due or len(groups) >= MAX_GROUPS)
    return found


# The condition is that of the due index, word for word, and the order its own.
_DUE = f"""
SELECT queue, partition_key, rate_class, min(scheduled_at_ms), count(*)
FROM (
    SELECT queue, partition_key, rate_class, scheduled_at_ms
    FROM headgate_django_job {{index}}
    WHERE state IN ({literals(*DUE)}) AND scheduled_at_ms <= %s
    ORDER BY scheduled_at_ms, id
    LIMIT %s
) due
GROUP BY queue, partition_key, rate_class
"""
_GROUP = "partition_key, rate_class, sticky_worker, priority, scheduled_at_ms"
_ORDER = "partition_key, rate_class, sticky_worker, priority DESC, scheduled_at_ms"
_STREAM = "(partition_key, rate_class, sticky_worker)"
_FIRST = f"""
SELECT {_GROUP}
FROM headgate_django_job {{index}}
WHERE state = {literals(State.AVAILABLE)} AND queue = %s {{beyond}}
ORDER BY {_ORDER}
LIMIT 1
"""
_LOWER = _FIRST.format(index="{index}", beyond=f"AND {_STREAM} = {{stream}} AND priority < {{priority}}")
_BEYOND = _FIRST.format(index="{index}", beyond=f"AND {_STREAM} >= {{beyond}}")
# The next lower priority of the same stream, else the next stream. Beyond a stream, as an inclusive bound: SQLite
# walks over all that equals an exclusive one.
_NEXT = f"""
SELECT {_GROUP}
FROM (
    SELECT 0 AS turn, lower.* FROM ({_LOWER}) lower
    UNION ALL
    SELECT 1 AS turn, beyond.* FROM ({_BEYOND}) beyond
) following
ORDER BY turn
LIMIT 1
"""
_HOP = _NEXT.format(
    index="",
    stream="(hop.partition_key, hop.rate_class, hop.sticky_worker)",
    priority="hop.priority",
    beyond="(hop.partition_key, hop.rate_class, hop.sticky_worker || chr(1))",
)
_SKIP_SCAN = f"""
WITH RECURSIVE hop AS (
    ({_FIRST.format(index="", beyond="")})
    UNION ALL
    SELECT following.*
    FROM hop
    CROSS JOIN LATERAL ({_HOP}) following
)
SELECT * FROM hop LIMIT %s
"""


def _scan_postgres(queue: str, using: str) -> Iterable[Any]:
    return fetch(using, _SKIP_SCAN, [*[queue] * 3, MAX_GROUPS])


def _scan_portable(queue: str, using: str) -> Iterable[Any]:
    return islice(_hops(queue, using), MAX_GROUPS)


def _hops(queue: str, using: str) -> Iterator[Any]:
    index = indexed_by(using, READY)
    following = _NEXT.format(index=index, stream="(%s, %s, %s)", priority="%s", beyond="(%s, %s, %s)")
    with connections[using].cursor() as cursor:
        cursor.execute(_FIRST.format(index=index, beyond=""), [queue])
        while (group := cursor.fetchone()) is not None:
            yield group
            partition, rate_class, sticky, priority, _ = group
            stream = (partition, rate_class)
            cursor.execute(following, [queue, *stream, sticky, priority, queue, *stream, sticky + chr(1)])
