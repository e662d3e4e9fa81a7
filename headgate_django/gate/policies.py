"""Step 3, what it reads: queue and partition policies, and the work in flight.

In flight is counted from running rows, never kept in a counter, so a crash cannot leak a slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headgate_django.core.allocation import Group
from headgate_django.core.states import State
from headgate_django.gate.streams import find_queues
from headgate_django.models.store import fetch, literals, marks

EVERY_QUEUE = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """What the fleet's policies say about the queues of one admit."""

    queues: tuple[str, ...]
    queue_weights: Mapping[str, int] = field(default_factory=dict)
    group_weights: Mapping[Group, int] = field(default_factory=dict)
    paused_groups: frozenset[Group] = frozenset()


def load_policies(served: Mapping[str, int], *, using: str) -> Policies:
    """The policies of the queues a worker serves (name → weight; ``*`` is every queue), paused ones left out.

    A weight on the ``Queue`` row, when it is not 1, wins over the worker's option.
    """
    names = find_queues(using=using) if EVERY_QUEUE in served else list(served)
    names += [name for name in served if name not in names and name != EVERY_QUEUE]
    if not names:
        return Policies(queues=())
    rows = fetch(
        using,
        f"SELECT 0, name, '', weight, paused FROM headgate_django_queue WHERE name IN ({marks(len(names))})"
        " UNION ALL SELECT 1, queue, key, weight, paused FROM headgate_django_partition"
        f" WHERE queue IN ({marks(len(names))})",
        [*names, *names],
    )
    default = served.get(EVERY_QUEUE, 1)
    weights = {name: served.get(name, default) for name in names}
    weights.update({row[1]: row[3] for row in rows if row[0] == 0 and row[3] != 1})
    paused = {row[1] for row in rows if row[0] == 0 and row[4]}
    partitions = [row for row in rows if row[0] == 1]
    return Policies(
        queues=tuple(name for name in names if name not in paused),
        queue_weights=weights,
        group_weights={Group(row[1], row[2]): row[3] for row in partitions},
        paused_groups=frozenset(Group(row[1], row[2]) for row in partitions if row[4]),
    )


def count_in_flight(queues: Iterable[str], *, using: str) -> dict[Group, int]:
    """Running jobs per partition of these queues, over the whole fleet."""
    wanted = set(queues)
    rows = fetch(
        using,
        "SELECT queue, partition_key, count(*) FROM headgate_django_job"
        f" WHERE state = {literals(State.RUNNING)} GROUP BY queue, partition_key",
    )
    return {Group(queue, key): count for queue, key, count in rows if queue in wanted}
