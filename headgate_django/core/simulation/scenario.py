"""A scenario: who sends which jobs, which workers there are, and the policies in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate_django.core.allocation import Group
from headgate_django.core.buckets import Budget
from headgate_django.core.simulation.chance import Distribution, Process
from headgate_django.core.turnstile import Ceiling


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A class of tenants, and the jobs that each of them sends."""

    name: str
    queue: str
    partition: str
    tenants: int
    partition_weight: int
    arrivals: Process
    duration: Distribution
    """In seconds."""
    weight: Distribution
    priority: int
    rate_class: str

    def groups(self) -> list[Group]:
        """The partitions of its tenants."""
        if self.tenants == 1:
            return [Group(self.queue, self.partition)]
        digits = len(str(self.tenants - 1))
        return [Group(self.queue, f"{self.partition}-{number:0{digits}}") for number in range(self.tenants)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Some workers that are alike. ``queues``: name → weight; ``*`` is every queue."""

    count: int
    threads: int
    queues: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """A ``Queue`` row."""

    weight: int = 1
    max_unfinished_jobs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is simulated. It ends when no job arrives or can run any more, or at ``stop_ms``."""

    title: str
    description: str
    seed: int
    stop_ms: int
    workers: tuple[Workers, ...]
    loads: tuple[Load, ...]
    queues: Mapping[str, QueuePolicy] = field(default_factory=dict)
    rate_classes: Mapping[str, tuple[Budget, ...]] = field(default_factory=dict)
    ceilings: tuple[Ceiling, ...] = ()

    @property
    def slots(self) -> int:
        """Jobs that can run at the same time."""
        return sum(group.count * group.threads for group in self.workers)
