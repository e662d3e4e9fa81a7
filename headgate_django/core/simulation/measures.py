"""What is observed: waits, tokens in every window, places under every ceiling, shares."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate_django.core.buckets import Budget


@dataclass(slots=True)
class LoadMeasure:
    """What became of the jobs of one class of tenants."""

    arrived: int = 0
    refused: int = 0
    """At enqueue, by a full queue."""
    started: int = 0
    completed: int = 0
    removed: Counter[str] = field(default_factory=Counter)
    """By the gate, with its answer: too heavy, discard, cancel incoming; and displaced while running."""
    busy_ms: int = 0
    finished_at_ms: int = 0
    waits: array[int] = field(default_factory=lambda: array("q"))


@dataclass(slots=True)
class BudgetMeter:
    """Measures one budget from outside: it knows only when how many tokens were taken."""

    budget: Budget
    most: int = 0
    """In any window of the budget's length."""
    worst_excess: int = 0
    """Above the steady refill, in a window of any length; tokens times window_ms."""
    _windows: dict[str, _Window] = field(default_factory=dict)

    @property
    def bound(self) -> int:
        """The most that a window of the budget's length may see."""
        return self.budget.burst + self.budget.limit

    @property
    def held(self) -> bool:
        """Whether no window of any length saw more than its bound."""
        return self.worst_excess <= self.budget.burst * self.budget.window_ms

    def take(self, now_ms: int, partition_key: str, tokens: int) -> None:
        """Tokens are taken."""
        key = partition_key if self.budget.per_partition else ""
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = _Window(now_ms)
        window.take(now_ms, tokens, self.budget)
        self.most = max(self.most, window.total)
        self.worst_excess = max(self.worst_excess, window.excess)


@dataclass(slots=True)
class _Window:
    last_ms: int
    excess: int = 0
    total: int = 0
    taken: deque[list[int]] = field(default_factory=deque)

    def take(self, now_ms: int, tokens: int, budget: Budget) -> None:
        self.excess = max(0, self.excess - budget.limit * (now_ms - self.last_ms)) + tokens * budget.window_ms
        if self.taken and self.last_ms == now_ms:
            self.taken[-1][1] += tokens
        else:
            self.taken.append([now_ms, tokens])
        self.last_ms = now_ms
        self.total += tokens
        while self.taken[0][0] < now_ms - budget.window_ms:
            self.total -= self.taken.popleft()[1]


MIN_SAMPLES, MAX_SAMPLES, MAX_LOOKS = 100, 5_000, 500_000
Sample = Mapping[int, tuple[int, float, int]]
"""By number of tenants: slots held, slots entitled to, slots of the queue; of queues that have work waiting."""

Demand = tuple[int, float]
"""How many slots somebody could use, and its weight."""


@dataclass
class Fairness:
    """Samples of who holds the slots, and who would if they were shared by weight among those that want them.

    A sample costs as much as there are tenants, so with many of them fewer are taken.
    """

    tenants: int
    every_ms: int = 10
    samples: list[Sample] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        """One more; when there are many, every second one is forgotten, and they are taken half as often."""
        self.samples.append(sample)
        if len(self.samples) >= max(MIN_SAMPLES, min(MAX_SAMPLES, MAX_LOOKS // self.tenants)):
            self.samples = self.samples[1::2]
            self.every_ms *= 2

    def shares(self, tenants: int) -> tuple[float, float] | None:
        """The mean share of their queue's slots and the one they were entitled to, while they had work."""
        mine = [sample[tenants] for sample in self.samples if tenants in sample]
        slots = sum(queue for _, _, queue in mine)
        if not slots:
            return None
        return sum(held for held, _, _ in mine) / slots, sum(entitled for _, entitled, _ in mine) / slots


def water_fill(slots: float, demands: Sequence[Demand]) -> list[float]:
    """Share out ``slots`` by weight; nobody gets more than its demand, and what it leaves goes to the others."""
    shares = [0.0] * len(demands)
    weight = sum(one for _, one in demands)
    for place in sorted(range(len(demands)), key=lambda place: demands[place][0] / demands[place][1]):
        demand, own = demands[place]
        shares[place] = min(demand, slots * own / weight)
        slots -= shares[place]
        weight -= own
    return shares


@dataclass(slots=True)
class QueueMeasure:
    """Starts from one queue in admits that left all queues with work, and those it was entitled to by weight."""

    started: int = 0
    entitled: float = 0.0
