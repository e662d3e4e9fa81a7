"""Delete rows that nobody needs any more, without waiting for those who use them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate_django.models.store import fetch, skip_locked


def forget(using: str, table: str, key: str, *, where: str, params: Sequence[Any], order: str, limit: int) -> int:
    """Delete up to ``limit`` rows, the first in ``order``; how many.

    Rows that others have locked are passed over: who deletes several rows and waits for one of them holds the
    others in an order that is not theirs. ``where`` is judged again on a row that has changed meanwhile.
    """
    rows = fetch(
        using,
        f"""
        WITH gone AS (
            SELECT {key} FROM {table} WHERE {where} ORDER BY {order} LIMIT %s {skip_locked(using)}
        )
        DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM gone) RETURNING {key}
        """,
        [*params, limit],
    )
    return len(rows)
