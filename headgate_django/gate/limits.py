"""Step 3, its limits: rate classes and concurrency limits, locked by name before anything is counted.

A limit row is the mutex of its scope: whoever admits under it counts, decides and commits before the next one
counts. Where no rows exist nothing is read and nothing is locked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate_django.core.allocation import Stream
from headgate_django.core.turnstile import Ceiling, Saturated, Scope, Turnstile
from headgate_django.models.rates import LOCK_OR_SKIP, load_rates, lock_clause
from headgate_django.models.store import fetch, marks


def load_turnstile(
    streams: Sequence[Stream], now_ms: int, *, has_ceilings: bool, lock: str, using: str
) -> Turnstile:
    """The limits that concern these streams, with refilled buckets; nothing is counted as running yet.

    ``lock``: the first window of an admit waits for the rows. A later one already holds rows, those of the windows
    before it and perhaps jobs, and so is out of order: it takes only what is free. ``explain`` reads.
    """
    classes = {stream.rate_class for stream in streams} - {""}
    partitions = {stream.partition_key for stream in streams if stream.rate_class}
    states = load_rates(classes, partitions, now_ms, lock=lock, using=using)
    ceilings = _load_ceilings(streams, sorted(classes), lock_clause(lock, using), using) if has_ceilings else ()
    return Turnstile(classes=states, ceilings=ceilings)


def counted_with(ceiling: Ceiling, stream: Stream) -> tuple[str, list[str]]:
    """The condition, with its parameters, of the jobs that share the places of ``ceiling`` with this stream."""
    return {
        Scope.QUEUE: ("queue = %s", [stream.queue]),
        Scope.PARTITION: ("queue = %s AND partition_key = %s", [stream.queue, stream.partition_key]),
        Scope.RATE_CLASS: ("rate_class = %s", [stream.rate_class]),
    }[ceiling.scope]


def _load_ceilings(
    streams: Sequence[Stream], classes: Sequence[str], lock: str, using: str
) -> tuple[Ceiling, ...]:
    queues = sorted({stream.queue for stream in streams})
    conditions = f"scope IN ('{Scope.QUEUE}', '{Scope.PARTITION}') AND key IN ({marks(len(queues))})"
    params: list[Any] = list(queues)
    if classes:
        conditions = f"({conditions}) OR (scope = '{Scope.RATE_CLASS}' AND key IN ({marks(len(classes))}))"
        params += classes
    select = "SELECT name, scope, key, max_concurrent, on_saturated FROM headgate_django_concurrencylimit"
    rows = fetch(using, f"{select} WHERE {conditions} ORDER BY name {lock}", params)
    held = {row[0] for row in rows}
    if lock == LOCK_OR_SKIP:
        busy = [row for row in fetch(using, f"{select} WHERE {conditions}", params) if row[0] not in held]
        rows += [(name, scope, key, 0, Saturated.QUEUE) for name, scope, key, _, _ in busy]
    return tuple(Ceiling.stored(*row) for row in rows)
