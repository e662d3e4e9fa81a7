"""Fairness over many admits: weighted shares converge, nobody starves, however long the jobs are."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate_django.core.allocation import Group, Ledger, allocate

tenants = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 40)), min_size=1, max_size=6)
"""Of each tenant: its weight, and how long its jobs run."""


class Fleet:
    """Workers that always find work of every tenant; virtual time goes in steps."""

    def __init__(self, slots: list[int], weights: dict[Group, int], lengths: dict[Group, int], seed: int) -> None:
        self.ledgers = [Ledger(rng=Random(seed + number)) for number in range(len(slots))]
        self.free = slots
        self.weights = weights
        self.lengths = lengths
        self.queue_weights: dict[str, int] = {}
        self.in_flight: Counter[Group] = Counter()
        self.ends: list[tuple[int, int, Group]] = []
        self.starts: Counter[Group] = Counter()
        self.held: Counter[Group] = Counter()
        self.now = 0

    def step(self) -> None:
        for end, worker, group in [one for one in self.ends if one[0] <= self.now]:
            self.ends.remove((end, worker, group))
            self.free[worker] += 1
            self.in_flight[group] -= 1
        for worker, ledger in enumerate(self.ledgers):
            turns = allocate(
                self.weights,
                self.free[worker],
                ledger=ledger,
                queue_weights=self.queue_weights,
                group_weights=self.weights,
                in_flight=self.in_flight,
            )
            assert len(turns) == self.free[worker]  # work-conserving
            for group in turns:
                ledger.record(group, 1, self.queue_weights.get(group.queue, 1))
                self.ends.append((self.now + self.lengths[group], worker, group))
                self.in_flight[group] += 1
                self.starts[group] += 1
            self.free[worker] = 0
        self.held.update(self.in_flight)
        self.now += 1


def fleet(slots: list[int], found: list[tuple[int, int]], seed: int) -> Fleet:
    groups = [Group("q", str(number)) for number in range(len(found))]
    weights = {group: weight for group, (weight, _) in zip(groups, found, strict=True)}
    return Fleet(slots, weights, {group: length for group, (_, length) in zip(groups, found, strict=True)}, seed)


@settings(max_examples=60, deadline=None)
@given(found=tenants, per_slot=st.integers(2, 5), workers=st.integers(1, 3), seed=st.integers(0, 99))
def test_slots_held_converge_to_the_weights_however_long_the_jobs_are(found, per_slot, workers, seed):
    # As many slots as the weights add up to, or a multiple of it, so that the exact shares are whole numbers.
    total = sum(weight for weight, _ in found) * per_slot
    running = fleet([total // workers + (number < total % workers) for number in range(workers)], found, seed)
    longest = max(length for _, length in found)
    for _ in range(3 * longest):
        running.step()
    running.held.clear()
    for _ in range(5 * longest):
        running.step()

    for group, weight in running.weights.items():
        entitled = weight * per_slot
        assert abs(running.held[group] / (5 * longest) - entitled) <= 1


@settings(max_examples=60, deadline=None)
@given(found=tenants, slots=st.lists(st.integers(1, 3), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_no_tenant_starves_whatever_the_weights_and_lengths(found, slots, seed):
    running = fleet(slots, found, seed)
    longest = max(length for _, length in found)

    # One slot per worker is enough: after each tenant's weight in turns of everybody else it is served.
    for _ in range(longest * (sum(weight for weight, _ in found) + 1)):
        running.step()

    assert set(running.starts) == set(running.weights)


@settings(max_examples=60, deadline=None)
@given(
    weights=st.lists(st.integers(1, 9), min_size=2, max_size=5),
    slots=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    seed=st.integers(0, 99),
)
def test_starts_converge_to_the_weights_of_queues(weights, slots, seed):
    groups = [Group(f"q{number}", "") for number in range(len(weights))]
    running = Fleet(list(slots), dict.fromkeys(groups, 1), dict.fromkeys(groups, 1), seed)
    running.queue_weights = {group.queue: weight for group, weight in zip(groups, weights, strict=True)}
    steps = 400

    for _ in range(steps):
        running.step()

    total = sum(running.starts.values())
    for group, weight in zip(groups, weights, strict=True):
        entitled = total * weight / sum(weights)
        assert abs(running.starts[group] - entitled) <= 2 * len(slots) + 1


@settings(max_examples=100, deadline=None)
@given(
    found=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    capacity=st.integers(1, 60),
    scarce=st.integers(1, 60),
    seed=st.integers(0, 99),
)
def test_the_first_of_the_turns_are_a_fair_allocation_of_fewer_slots(found, capacity, scarce, seed):
    weights = {Group("q", str(number)): weight for number, weight in enumerate(found)}

    def turns(slots: int) -> list[Group]:
        ledger = Ledger(rng=Random(seed))
        for group in weights:
            ledger.record(group, 1, 1)
        return allocate(weights, slots, ledger=ledger, queue_weights={}, group_weights=weights, in_flight={})

    assert turns(capacity)[:scarce] == turns(min(capacity, scarce))
