"""A row of the table of situations: what waits, what runs, what policy says, and what must be admitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate_django.core.states import State
from headgate_django.models import Partition, Queue

ME, OTHER = "w1", "w2"


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Jobs that wait: ``count`` of them, called ``{name}`` or, when several, ``{name}0``, ``{name}1``, …"""

    name: str
    count: int = 1
    queue: str = "default"
    partition: str = ""
    rate_class: str = ""
    sticky: str = ""
    priority: int = 0
    at: int = 0
    """Scheduled time, in milliseconds from the beginning; the past is available at once."""
    deadline: int = 0
    """Milliseconds from the beginning."""
    pending: bool = False
    poisoned: bool = False

    @property
    def names(self) -> list[str]:
        return [self.name] if self.count == 1 else [f"{self.name}{number}" for number in range(self.count)]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """``expected``: names in order, or, as a set, in any order, or numbers per ``queue/partition``."""

    claim: str
    waiting: tuple[Waiting, ...]
    expected: tuple[str, ...] | frozenset[str] | Mapping[str, int]
    capacity: int = 10
    in_flight: tuple[Waiting, ...] = ()
    """What another worker already runs."""
    policies: tuple[Queue | Partition, ...] = ()
    serves: Mapping[str, int] = field(default_factory=lambda: {"*": 1})
    after_ms: int = 0
    """When the gate is asked, in milliseconds from the beginning."""
    states: Mapping[str, State] = field(default_factory=dict)
    """States of some jobs afterwards."""


def one(name: str, **options: object) -> Waiting:
    return Waiting(name=name, **options)  # type: ignore[arg-type]
