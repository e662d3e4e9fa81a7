"""Token buckets: how many jobs of a rate class may start, and when.

Exact integer arithmetic. A level is kept in tokens times window_ms, so that a refill of ``limit`` tokens a window
is ``limit`` a millisecond and nothing is ever rounded away.

The bound: in any window of length ``w`` at most ``burst + limit * w / window_ms`` tokens are taken. With the
default burst (the limit) no window of ``window_ms`` sees more than twice the limit, and only right after an idle
time; with ``burst=1`` the jobs are spaced evenly.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FLOOR = -(2**62)
"""No debt is deeper than what a 64-bit column holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """``limit`` tokens per ``window_ms``, at most ``burst`` of them at once; one bucket, or one a partition."""

    id: int
    limit: int
    window_ms: int
    burst: int
    per_partition: bool = False

    def __str__(self) -> str:
        every = f" per {self.window_ms / 1000:g} s"
        return f"{self.limit}{every}{' and partition' if self.per_partition else ''}"


@dataclass(slots=True)
class Bucket:
    """The level of one budget (of one partition). May go below zero when a job cost more than was charged."""

    budget: Budget
    level: int
    refilled_at_ms: int

    @classmethod
    def full(cls, budget: Budget, now_ms: int) -> Bucket:
        """The bucket of which nothing is known: nobody has taken from it for long."""
        return cls(budget, budget.burst * budget.window_ms, now_ms)

    def refill(self, now_ms: int) -> None:
        """Add what has come since the last refill. A clock that went back adds nothing and takes nothing."""
        elapsed = max(0, now_ms - self.refilled_at_ms)
        self.level = min(self.budget.burst * self.budget.window_ms, self.level + elapsed * self.budget.limit)
        self.refilled_at_ms = max(self.refilled_at_ms, now_ms)

    @property
    def tokens(self) -> int:
        """Whole tokens that may be taken now."""
        return max(0, self.level // self.budget.window_ms)

    @property
    def is_full(self) -> bool:
        """Whether it says no more than a bucket of which nothing is known."""
        return self.level >= self.budget.burst * self.budget.window_ms

    def take(self, cost: int) -> None:
        """Take ``cost`` tokens, or give back a negative number of them; never above the burst."""
        level = self.level - cost * self.budget.window_ms
        self.level = max(FLOOR, min(self.budget.burst * self.budget.window_ms, level))

    def wait_ms(self, cost: int, now_ms: int) -> int | None:
        """Milliseconds until ``cost`` tokens are there if nobody else takes any; None when they never will be."""
        if cost > self.budget.burst:
            return None
        missing = cost * self.budget.window_ms - self.level
        if missing <= 0:
            return 0
        # Counted from the last refill, which is later than now when the clock has gone back.
        return max(0, self.refilled_at_ms - now_ms - (-missing // self.budget.limit))


@dataclass(slots=True)
class RateState:
    """One rate class during one admit: its kill switch, its back-off, its budgets with their buckets."""

    name: str
    now_ms: int
    budgets: tuple[Budget, ...] = ()
    """Best with those of the whole class first: when one of them is spent, the others need not be looked at."""
    paused: bool = False
    held_until_ms: int = 0
    saving: bool = False
    """For the rest of this admit nobody may overtake a job that waits for tokens of the whole class."""
    buckets: dict[tuple[int, str], Bucket] = field(default_factory=dict)
    charged: set[tuple[int, str]] = field(default_factory=set)

    @property
    def is_open(self) -> bool:
        """Whether the class admits anything at all now."""
        return not self.closed

    @property
    def closed(self) -> str:
        """Why the class admits nothing at all now; empty when it may."""
        if self.paused:
            return "paused"
        if self.held_until_ms > self.now_ms:
            return "held back"
        return "saving tokens for a heavier job" if self.saving else ""

    def bucket(self, budget: Budget, partition_key: str) -> Bucket:
        """The refilled bucket that a job of this partition draws from."""
        key = (budget.id, partition_key if budget.per_partition else "")
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = self.buckets[key] = Bucket.full(budget, self.now_ms)
        elif bucket.refilled_at_ms < self.now_ms:
            bucket.refill(self.now_ms)
        return bucket

    def lacking(self, partition_key: str, weight: int) -> Budget | None:
        """The first budget without room for ``weight``, or None when every budget has it."""
        for budget in self.budgets:
            if self.bucket(budget, partition_key).level < weight * budget.window_ms:
                return budget
        return None

    def lacks_only_shared(self, partition_key: str, weight: int) -> bool:
        """Whether every budget that belongs to the partition has room for ``weight``."""
        return not any(
            budget.per_partition and self.bucket(budget, partition_key).tokens < weight for budget in self.budgets
        )

    def too_heavy(self, weight: int) -> Budget | None:
        """The first budget whose burst is below ``weight``: such a job can never run."""
        return next((budget for budget in self.budgets if budget.burst < weight), None)

    def charge(self, partition_key: str, weight: int) -> None:
        """Take ``weight`` tokens from every budget; a negative weight is a refund."""
        for budget in self.budgets:
            self.bucket(budget, partition_key).take(weight)
            self.charged.add((budget.id, partition_key if budget.per_partition else ""))

    def wait_ms(self, partition_key: str, weight: int) -> int | None:
        """Milliseconds until a job of ``weight`` fits if nobody else draws; None when it never will."""
        waits = [self.bucket(budget, partition_key).wait_ms(weight, self.now_ms) for budget in self.budgets]
        if any(wait is None for wait in waits):
            return None
        return max([self.held_until_ms - self.now_ms, 0, *(wait for wait in waits if wait is not None)])
