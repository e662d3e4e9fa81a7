"""The duties, and one pass of one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate_django.duties import lease
from headgate_django.duties.forget import forget_workers
from headgate_django.duties.quarantine import forget_old_suspects, sweep_quarantine
from headgate_django.lifecycle.evict import evict
from headgate_django.lifecycle.reclaim import reclaim
from headgate_django.models.rates import forget_full

BATCH = 500
MAX_BATCHES = 20


@dataclass(frozen=True, slots=True)
class Sweep:
    """A bounded piece of work, repeated every ``interval`` seconds by whoever holds its lease."""

    name: str
    interval: float
    work: Callable[[int, str], int]
    """(limit, database alias) → rows handled."""
    after_renewals: bool = False
    """Whether the holders of leases must have had time to renew them when nobody could for a while."""

    @property
    def ttl_ms(self) -> int:
        """How long the lease lasts: several intervals, so that one slow pass does not lose it."""
        return int(self.interval * 1000) * 5


SWEEPS = (
    Sweep("reclaim", 1.0, lambda limit, using: reclaim(limit=limit, using=using), after_renewals=True),
    Sweep("evict", 5.0, lambda limit, using: evict(limit=limit, using=using)),
    Sweep("quarantine", 1.0, sweep_quarantine),
    Sweep("forget suspects", 600.0, forget_old_suspects),
    Sweep("forget buckets", 60.0, lambda limit, using: forget_full(limit=limit, using=using)),
    Sweep("forget workers", 60.0, lambda limit, using: forget_workers(limit=limit, using=using)),
)


def perform(sweep: Sweep, holder: str, *, using: str, go_on: Callable[[], bool] = lambda: True) -> int | None:
    """One pass under the sweep's lease, in bounded batches; rows handled, or None when another worker holds it.

    ``go_on`` is asked before each batch, and so before the lease is taken or kept.
    """
    handled = 0
    for _ in range(MAX_BATCHES):
        if not go_on():
            break
        if not lease.acquire(sweep.name, holder, sweep.ttl_ms, using=using):
            return handled or None
        count = sweep.work(BATCH, using)
        handled += count
        if count:
            lease.count(sweep.name, count, using=using)
        if count < BATCH:
            break
    return handled
