"""What the limits stand at: tokens in buckets, jobs under ceilings. Read without a lock, for people."""

from __future__ import annotations

from collections.abc import Sequence

from headgate_django.core.allocation import Stream
from headgate_django.core.buckets import Bucket, Budget
from headgate_django.core.states import State
from headgate_django.core.turnstile import Ceiling, Turnstile
from headgate_django.models import clock
from headgate_django.models.limits import ConcurrencyLimit, RateBucket, RateClass
from headgate_django.models.store import fetch, literals

MAX_BUCKETS = 50
"""Buckets of one class that are shown."""


def levels(rate_class: RateClass, *, using: str) -> list[tuple[str, int, int, str]]:
    """(budget, tokens, burst, partition) of the buckets that are not full, the emptiest first, at most 50."""
    now_ms = clock.now_ms(using)
    rows = RateBucket.objects.using(using).filter(budget__rate_class=rate_class).select_related("budget")
    found = []
    for row in rows.order_by("level")[:MAX_BUCKETS]:
        budget = Budget(
            id=row.budget_id,
            limit=row.budget.limit,
            window_ms=row.budget.window_ms,
            burst=row.budget.burst,
            per_partition=row.budget.per_partition,
        )
        bucket = Bucket(budget, row.level, row.refilled_at_ms)
        bucket.refill(now_ms)
        if not bucket.is_full:
            found.append((str(budget), bucket.tokens, budget.burst, row.partition_key))
    return found


def running_under(limits: Sequence[ConcurrencyLimit], *, using: str) -> dict[str, int]:
    """How many jobs run under each limit; of a partition scope, in its busiest partition. One statement."""
    ceilings = [
        Ceiling.stored(limit.name, limit.scope, limit.key, limit.max_concurrent, limit.on_saturated)
        for limit in limits
    ]
    turnstile = Turnstile(ceilings=ceilings)
    rows = fetch(
        using,
        "SELECT queue, partition_key, rate_class, count(*) FROM headgate_django_job"
        f" WHERE state = {literals(State.RUNNING)} GROUP BY queue, partition_key, rate_class",
    )
    for queue, partition_key, rate_class, count in rows:
        turnstile.count(Stream(queue, partition_key, rate_class, ""), count)
    running = {limit.name: 0 for limit in limits}
    for seat, count in turnstile.running.items():
        running[seat.limit] = max(running[seat.limit], count)
    return running
