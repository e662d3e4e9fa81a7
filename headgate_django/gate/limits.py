"""Step 3, its limits: rate classes and concurrency limits, locked by name before anything is counted.

A limit row is the mutex of its scope: whoever admits under it counts, decides and commits before the next one
counts. Where no rows exist nothing is read and nothing is locked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connections

from headgate_django.core.allocation import Stream
from headgate_django.core.buckets import Bucket, Budget, RateState
from headgate_django.core.turnstile import Ceiling, Saturated, Scope, Turnstile
from headgate_django.models.store import execute, fetch, marks, rowset

LOCK, LOCK_OR_SKIP, READ = "FOR UPDATE", "FOR UPDATE SKIP LOCKED", ""
"""How policy rows are read: by the first window of an admit, by later ones, by ``explain``.

A later window already holds jobs, and policy rows are locked before jobs: it takes only what is free.
"""


def load_turnstile(
    streams: Sequence[Stream], now_ms: int, *, has_ceilings: bool, lock: str, using: str
) -> Turnstile:
    """The limits that concern these streams, with refilled buckets; nothing is counted as running yet."""
    lock = lock if connections[using].features.has_select_for_update_skip_locked else READ
    classes = sorted({stream.rate_class for stream in streams} - {""})
    states = _load_classes(classes, now_ms, lock, using)
    if any(state.budgets for state in states.values()):
        _load_buckets(states, {stream.partition_key for stream in streams if stream.rate_class}, now_ms, using)
    ceilings = _load_ceilings(streams, classes, lock, using) if has_ceilings else ()
    return Turnstile(classes=states, ceilings=ceilings)


def save_buckets(turnstile: Turnstile, *, using: str) -> None:
    """Write the levels of the buckets that were drawn from."""
    rows = [
        (budget_id, partition_key, state.buckets[budget_id, partition_key])
        for state in turnstile.classes.values()
        for budget_id, partition_key in sorted(state.charged)
    ]
    if not rows:
        return
    columns = {"budget_id": "bigint", "partition_key": "text", "level": "bigint", "refilled_at_ms": "bigint"}
    charged, params = rowset(
        using, "charged", columns, [(one, key, bucket.level, bucket.refilled_at_ms) for one, key, bucket in rows]
    )
    names = ", ".join(columns)
    execute(
        using,
        f"WITH {charged} INSERT INTO headgate_django_ratebucket ({names}) SELECT {names} FROM charged WHERE true"
        " ON CONFLICT (budget_id, partition_key) DO UPDATE"
        " SET level = excluded.level, refilled_at_ms = excluded.refilled_at_ms",
        params,
    )


def _load_classes(names: Sequence[str], now_ms: int, lock: str, using: str) -> dict[str, RateState]:
    if not names:
        return {}
    where = f"WHERE name IN ({marks(len(names))})"
    rows = fetch(
        using,
        f"SELECT name, paused, held_until_ms FROM headgate_django_rateclass {where} ORDER BY name {lock}",
        names,
    )
    states = {
        name: RateState(name, now_ms, paused=bool(paused), held_until_ms=held_until_ms)
        for name, paused, held_until_ms in rows
    }
    if lock == LOCK_OR_SKIP:
        for (name,) in fetch(using, f"SELECT name FROM headgate_django_rateclass {where}", names):
            # Somebody else decides about this class at the moment: it is closed for the rest of this admit.
            states.setdefault(name, RateState(name, now_ms, paused=True))
    if states:
        for name, budgets in _load_budgets(list(states), using).items():
            states[name].budgets = tuple(budgets)
    return states


def _load_budgets(names: Sequence[str], using: str) -> dict[str, list[Budget]]:
    rows = fetch(
        using,
        'SELECT rate_class_id, id, "limit", window_ms, burst, per_partition FROM headgate_django_ratebudget'
        f" WHERE rate_class_id IN ({marks(len(names))}) ORDER BY id",
        names,
    )
    budgets: dict[str, list[Budget]] = {}
    for name, budget_id, limit, window_ms, burst, per_partition in rows:
        budget = Budget(
            id=budget_id, limit=limit, window_ms=window_ms, burst=burst, per_partition=bool(per_partition)
        )
        budgets.setdefault(name, []).append(budget)
    return budgets


def _load_buckets(states: Mapping[str, RateState], partitions: set[str], now_ms: int, using: str) -> None:
    budgets = {budget.id: (state, budget) for state in states.values() for budget in state.budgets}
    keys = [
        (budget.id, key)
        for _, budget in budgets.values()
        for key in (sorted(partitions) if budget.per_partition else [""])
    ]
    wanted, params = rowset(using, "wanted", {"budget_id": "bigint", "partition_key": "text"}, keys)
    rows = fetch(
        using,
        f"WITH {wanted} SELECT bucket.budget_id, bucket.partition_key, bucket.level, bucket.refilled_at_ms"
        " FROM wanted JOIN headgate_django_ratebucket bucket ON bucket.budget_id = wanted.budget_id"
        " AND bucket.partition_key = wanted.partition_key",
        params,
    )
    for budget_id, partition_key, level, refilled_at_ms in rows:
        state, budget = budgets[budget_id]
        bucket = Bucket(budget, level, refilled_at_ms)
        bucket.refill(now_ms)
        state.buckets[budget_id, partition_key] = bucket


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
    return tuple(
        Ceiling(name=name, scope=Scope(scope), key=key, max_concurrent=most, on_saturated=Saturated(strategy))
        for name, scope, key, most, strategy in rows
    )
