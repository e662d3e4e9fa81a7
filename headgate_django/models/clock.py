"""The store's clock: the only place that reads the time. Python's own clock measures durations only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

# On SQLite the database is this process, so its clock is this machine's.
_NOW = {
    "postgresql": "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint",
    "sqlite": "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)",
}


class FrozenClock:
    """A clock that tests move by hand."""

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    def advance(self, *, milliseconds: int = 0, seconds: float = 0, minutes: float = 0, days: float = 0) -> int:
        """Move forward and return the new time in milliseconds."""
        self.at_ms += milliseconds + round((seconds + minutes * 60 + days * 86_400) * 1000)
        return self.at_ms


_frozen: FrozenClock | None = None


def now_sql(using: str) -> str:
    """An SQL expression for the store's time in integer milliseconds."""
    if _frozen is not None:
        return str(_frozen.at_ms)
    return _NOW[connections[using].vendor]


def now_ms(using: str) -> int:
    """The store's time in milliseconds since the epoch. One statement."""
    if _frozen is not None:
        return _frozen.at_ms
    with connections[using].cursor() as cursor:
        cursor.execute(f"SELECT {now_sql(using)}")
        return int(cursor.fetchone()[0])


@contextmanager
def frozen(at_ms: int) -> Iterator[FrozenClock]:
    """Freeze the clock of this process at ``at_ms``, for tests."""
    global _frozen
    previous, _frozen = _frozen, FrozenClock(at_ms)
    try:
        yield _frozen
    finally:
        _frozen = previous
