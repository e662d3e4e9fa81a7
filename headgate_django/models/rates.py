"""Rate classes in the store: their budgets and the levels of their buckets, read under lock and written back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from django.db import connections

from headgate_django.core.buckets import Bucket, Budget, RateState
from headgate_django.models import clock
from headgate_django.models.forget import forget
from headgate_django.models.store import execute, fetch, marks, rowset

LOCK, LOCK_OR_SKIP, READ = "FOR UPDATE", "FOR UPDATE SKIP LOCKED", ""
"""How policy rows are read, always by name: waiting for them, passing over locked ones, or without a lock."""


def lock_clause(lock: str, using: str) -> str:
    """The clause, on a database that locks rows. SQLite locks the whole file at the start of the transaction."""
    return lock if connections[using].features.has_select_for_update_skip_locked else READ


def load_rates(
    names: Collection[str], partitions: Collection[str], now_ms: int, *, lock: str, using: str
) -> dict[str, RateState]:
    """The rate classes that exist among ``names``, with the refilled buckets of these partitions."""
    if not names:
        return {}
    states = _load_classes(sorted(names), now_ms, lock_clause(lock, using), using)
    if any(state.budgets for state in states.values()):
        _load_buckets(states, partitions, now_ms, using)
    return states


def save_rates(states: Iterable[RateState], *, using: str) -> None:
    """Write the levels of the buckets that were drawn from."""
    rows = [
        (budget_id, partition_key, state.buckets[budget_id, partition_key])
        for state in states
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


IDLE_MS = 10 * 60 * 1000
"""A bucket is looked at for removal when nobody has drawn from it for so long."""


def forget_full(*, limit: int, using: str) -> int:
    """Delete up to ``limit`` idle buckets that are full again, which is what a missing bucket is; how many."""
    idle_since_ms = clock.now_ms(using) - IDLE_MS
    return forget(
        using,
        "headgate_django_ratebucket",
        "id",
        where="""
            refilled_at_ms < %s AND EXISTS (
                SELECT 1 FROM headgate_django_ratebudget budget
                WHERE budget.id = headgate_django_ratebucket.budget_id
                  AND %s - refilled_at_ms > (budget.burst * budget.window_ms - level) / budget."limit"
            )
        """,
        params=[idle_since_ms, idle_since_ms],
        order="id",
        limit=limit,
    )


def smallest_bursts(names: Collection[str], *, using: str) -> dict[str, int]:
    """The smallest burst of each of these rate classes that has budgets: no heavier job can ever start."""
    rows = fetch(
        using,
        "SELECT rate_class_id, min(burst) FROM headgate_django_ratebudget"
        f" WHERE rate_class_id IN ({marks(len(names))}) GROUP BY rate_class_id",
        sorted(names),
    )
    return dict(rows)


def hold_back(until: Mapping[str, int], now_ms: int, *, using: str) -> None:
    """Let no job of these classes start for so many milliseconds. A class without a row gets one."""
    held, params = rowset(
        using,
        "held",
        {"name": "text", "held_until_ms": "bigint"},
        [(name, now_ms + delay_ms) for name, delay_ms in sorted(until.items())],
    )
    execute(
        using,
        f"""
        WITH {held}
        INSERT INTO headgate_django_rateclass (name, paused, held_until_ms)
        SELECT name, false, held_until_ms FROM held WHERE true
        ON CONFLICT (name) DO UPDATE SET held_until_ms = CASE
            WHEN headgate_django_rateclass.held_until_ms > excluded.held_until_ms
            THEN headgate_django_rateclass.held_until_ms ELSE excluded.held_until_ms END
        """,
        params,
    )


def _load_classes(names: Sequence[str], now_ms: int, lock: str, using: str) -> dict[str, RateState]:
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
        f" WHERE rate_class_id IN ({marks(len(names))}) ORDER BY per_partition, id",
        names,
    )
    budgets: dict[str, list[Budget]] = {}
    for name, budget_id, limit, window_ms, burst, per_partition in rows:
        budget = Budget(
            id=budget_id, limit=limit, window_ms=window_ms, burst=burst, per_partition=bool(per_partition)
        )
        budgets.setdefault(name, []).append(budget)
    return budgets


def _load_buckets(states: Mapping[str, RateState], partitions: Collection[str], now_ms: int, using: str) -> None:
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
