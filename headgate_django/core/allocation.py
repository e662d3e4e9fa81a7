"""The arithmetic of admission: who gets the free slots.

Between queues: weighted fair service, remembered in the worker's ledger. Between the partitions of a queue:
water-filling on work in flight, so that a tenant with slow jobs cannot hold all slots. Always
work-conserving: capacity that nobody else wants goes to whoever is left. Pure functions; the same code
decides on every database.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import NamedTuple


class Stream(NamedTuple):
    """The unit that the gate draws from: waiting jobs that every policy treats alike."""

    queue: str
    partition_key: str
    rate_class: str
    sticky_worker: str

    @property
    def group(self) -> Group:
        """The tenant of a queue that this stream belongs to."""
        return Group._make(self[:2])


class Group(NamedTuple):
    """A partition of a queue: the unit of fairness."""

    queue: str
    partition_key: str


@dataclass
class Ledger:
    """What one worker remembers of whom it served. Lost on restart, and nothing but fairness depends on it."""

    rng: Random = field(default_factory=Random)
    max_groups: int = 10_000
    _virtual_time: OrderedDict[str, float] = field(default_factory=OrderedDict)
    _clock: float = 0.0
    _active: frozenset[str] = frozenset()
    _served_at: OrderedDict[Group, int] = field(default_factory=OrderedDict)
    _turn: int = 0

    def enter(self, queues: Iterable[str]) -> dict[str, float]:
        """Virtual times of the queues that have work now; one that was idle starts at the others' time."""
        queues = list(queues)  # in their order: the same seed makes the same choices
        for queue in queues:
            if queue not in self._active:
                self._virtual_time[queue] = max(self._virtual_time.get(queue, 0.0), self._clock)
        self._active = frozenset(queues)
        self._forget_idle()
        return {queue: self._virtual_time[queue] for queue in queues}

    def _forget_idle(self) -> None:
        # Names of queues may be made up without end; those unused the longest go first.
        excess = len(self._virtual_time) - max(self.max_groups, len(self._active))
        idle = (queue for queue in self._virtual_time if queue not in self._active)
        for queue in list(islice(idle, max(0, excess))):
            del self._virtual_time[queue]

    def recency(self, group: Group) -> float:
        """Smaller for a group served longer ago; random among those never served."""
        return self._served_at.get(group, self.rng.random() - 1)

    def record(self, group: Group, count: int, weight: int) -> None:
        """Remember that ``count`` jobs of ``group`` were admitted from a queue of this weight."""
        self._clock = max(self._clock, self._virtual_time.get(group.queue, self._clock))
        self._virtual_time[group.queue] = self._virtual_time.get(group.queue, self._clock) + count / weight
        self._virtual_time.move_to_end(group.queue)
        self._turn += 1
        self._served_at[group] = self._turn
        self._served_at.move_to_end(group)
        if len(self._served_at) > self.max_groups:
            self._served_at.popitem(last=False)


def allocate(
    groups: Iterable[Group],
    capacity: int,
    *,
    ledger: Ledger,
    queue_weights: Mapping[str, int],
    group_weights: Mapping[Group, int],
    in_flight: Mapping[Group, int],
) -> list[Group]:
    """Share out ``capacity`` slots between the groups that have work: to whom each goes, in order.

    Each slot goes to the queue with the lowest virtual time, and there to the group whose
    (in flight + given) / weight is lowest; ties go to the group served least recently. A missing weight is 1.
    """
    heaps: dict[str, list[tuple[float, float, Group]]] = {}
    for group in groups:
        load = in_flight.get(group, 0) / group_weights.get(group, 1)
        heaps.setdefault(group.queue, []).append((load, ledger.recency(group), group))
    for heap in heaps.values():
        heapq.heapify(heap)
    queues = [(start, ledger.rng.random(), queue) for queue, start in ledger.enter(heaps).items()]
    heapq.heapify(queues)

    turns: list[Group] = []
    for _ in range(capacity if queues else 0):
        start, tie, queue = queues[0]
        load, recency, group = heaps[queue][0]
        turns.append(group)
        weight = group_weights.get(group, 1)
        heapq.heapreplace(heaps[queue], (load + 1 / weight, recency, group))
        heapq.heapreplace(queues, (start + 1 / queue_weights.get(queue, 1), tie, queue))
    return turns
