"""Who gets the free slots: never more than there are, never fewer than there is work for, and fairly."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate_django.core.allocation import Group, Ledger, Stream, allocate

A, B, C = Group("q", "a"), Group("q", "b"), Group("q", "c")
names = st.sampled_from(["", "a", "b", "c", "日本"])
groups = st.lists(st.builds(Group, names, names), max_size=12, unique=True)
weights = st.integers(1, 50)


def ledger(seed: int = 1, **options: int) -> Ledger:
    return Ledger(rng=Random(seed), **options)


def share(found, capacity, book=None, *, queues=None, partitions=None, in_flight=None):
    turns = allocate(
        found,
        capacity,
        ledger=book or ledger(),
        queue_weights=queues or {},
        group_weights=partitions or {},
        in_flight=in_flight or {},
    )
    return Counter(turns)


def per_queue(given_slots: dict[Group, int]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for group, count in given_slots.items():
        counted[group.queue] += count
    return counted


@settings(max_examples=200, deadline=None)
@given(
    found=groups,
    capacity=st.integers(-2, 60),
    queues=st.dictionaries(names, weights),
    partitions=st.dictionaries(st.builds(Group, names, names), weights),
    in_flight=st.dictionaries(st.builds(Group, names, names), st.integers(0, 100)),
    seed=st.integers(),
)
def test_all_of_the_capacity_and_no_more_is_given_to_groups_that_asked(
    found, capacity, queues, partitions, in_flight, seed
):
    given_slots = share(found, capacity, ledger(seed), queues=queues, partitions=partitions, in_flight=in_flight)

    assert sum(given_slots.values()) == (max(0, capacity) if found else 0)
    assert set(given_slots) <= set(found)
    assert all(count > 0 for count in given_slots.values())


@settings(max_examples=200, deadline=None)
@given(
    found=st.lists(st.builds(Group, st.just("q"), st.text(max_size=3)), min_size=1, max_size=8, unique=True),
    loads=st.lists(st.tuples(st.integers(0, 20), weights), min_size=8, max_size=8),
    capacity=st.integers(1, 60),
)
def test_water_filling_never_raises_a_group_above_one_that_is_lower(found, loads, capacity):
    in_flight = {group: load for group, (load, _) in zip(found, loads, strict=False)}
    partitions = {group: weight for group, (_, weight) in zip(found, loads, strict=False)}

    given_slots = share(found, capacity, partitions=partitions, in_flight=in_flight)

    def level(group: Group, count: int) -> float:
        return (in_flight[group] + count) / partitions[group]

    lowest = min(level(group, given_slots.get(group, 0)) for group in found)
    for group, count in given_slots.items():
        assert level(group, count - 1) <= lowest + 1e-9


def test_a_group_with_work_in_flight_gets_what_the_others_leave():
    assert share([A, B], 4, in_flight={A: 4}) == {B: 4}
    assert share([A, B], 6, in_flight={A: 4}) == {A: 1, B: 5}
    assert share([A], 4, in_flight={A: 100}) == {A: 4}


def test_a_partition_of_many_slots_weighs_as_its_weight_says():
    assert share([A, B, C], 10, partitions={A: 3, B: 1, C: 1}) == {A: 6, B: 2, C: 2}


def test_a_small_partition_is_served_beside_a_huge_one():
    # How many jobs wait is no argument of the allocation: 20,000 waiting and 3 waiting count the same.
    assert share([A, B], 4) == {A: 2, B: 2}


@pytest.mark.parametrize("seed", range(20))
def test_queue_weights_of_three_to_one_give_six_of_eight(seed):
    heavy, light = Group("heavy", ""), Group("light", "")

    assert share([heavy, light], 8, ledger(seed), queues={"heavy": 3, "light": 1}) == {heavy: 6, light: 2}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("capacity", [1, 2, 3, 5, 8])
def test_queue_weights_hold_over_many_small_admits(seed, capacity):
    book, served = ledger(seed), Counter()
    queues = {"heavy": 3, "light": 1}
    found = [Group("heavy", ""), Group("light", "")]

    for _ in range(400):
        given_slots = share(found, capacity, book, queues=queues)
        for group, count in given_slots.items():
            for _ in range(count):
                book.record(group, 1, queues[group.queue])
        served += per_queue(given_slots)

    total = 400 * capacity
    assert abs(served["heavy"] - 0.75 * total) <= 3


@pytest.mark.parametrize("seed", range(10))
def test_a_single_slot_alternates_between_two_partitions(seed):
    book, order = ledger(seed), []

    for _ in range(20):
        [group] = share([A, B], 1, book)
        book.record(group, 1, 1)
        order.append(group)

    assert all(first != second for first, second in pairwise(order))


@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_no_partition_starves(capacity):
    found = [Group("q", str(number)) for number in range(50)]
    book, served = ledger(), Counter()

    for _ in range(-(-50 // capacity)):
        for group, count in share(found, capacity, book).items():
            book.record(group, count, 1)
            served[group] += count

    assert set(served) == set(found)


def test_no_queue_starves_whatever_the_weights():
    book, served = ledger(), Counter()
    queues = {"huge": 1_000, "tiny": 1}
    found = [Group("huge", ""), Group("tiny", "")]

    for _ in range(1_001):
        [group] = share(found, 1, book, queues=queues)
        book.record(group, 1, queues[group.queue])
        served[group.queue] += 1

    assert served["tiny"] >= 1


@pytest.mark.parametrize("seed", range(10))
def test_a_queue_that_was_idle_gets_no_burst(seed):
    book = ledger(seed)
    busy, idle = Group("busy", ""), Group("idle", "")
    for _ in range(1_000):
        share([busy], 1, book)
        book.record(busy, 1, 1)

    given_slots = share([busy, idle], 20, book)

    assert abs(given_slots[idle] - given_slots[busy]) <= 2


def test_a_queue_that_comes_and_goes_gains_nothing_by_it():
    book, served = ledger(), Counter()
    steady, coming = Group("steady", ""), Group("coming", "")

    for turn in range(1_000):
        found = [steady, coming] if turn % 2 else [steady]
        [group] = share(found, 1, book)
        book.record(group, 1, 1)
        served[group] += 1

    assert served[coming] <= 502


def test_what_was_offered_but_not_drawn_is_not_held_against_a_group():
    book = ledger()
    for _ in range(50):
        share([A, B], 1, book)  # nothing is recorded: somebody else drew the jobs

    firsts = Counter(next(iter(share([A, B], 1, book))) for _ in range(50))

    assert set(firsts) == {A, B}  # neither was ever served, so chance decides each time


def test_workers_with_fresh_ledgers_do_not_all_begin_with_the_same_tenant():
    firsts = {next(iter(share([A, B, C], 1, ledger(seed)))) for seed in range(30)}

    assert firsts == {A, B, C}


def test_the_ledger_remembers_a_bounded_number_of_names():
    book = ledger(max_groups=100)

    for number in range(1_000):
        group = Group(f"queue-{number}", f"tenant-{number}")
        share([group], 1, book)
        book.record(group, 1, 1)

    share([A], 1, book)
    assert len(book._served_at) <= 100
    assert len(book._virtual_time) <= 101


def test_forgetting_names_keeps_the_queues_that_have_work():
    book = ledger(max_groups=2)
    found = [Group(f"queue-{number}", "") for number in range(10)]

    for _ in range(5):
        for group, count in share(found, 10, book).items():
            book.record(group, count, 1)

    assert share(found, 10, book) == dict.fromkeys(found, 1)


def test_the_group_of_a_stream_is_its_tenant():
    assert Stream("q", "a", "smtp", "w1").group == A
