"""Token buckets: the stated bound in every window, exact waits, and nothing rounded away."""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate_django.core.buckets import FLOOR, Bucket, Budget, RateState

PARTITIONS = ["", "a", "b"]

terms = st.fixed_dictionaries(
    {
        "limit": st.integers(1, 40),
        "window_ms": st.integers(1, 3_000),
        "burst": st.integers(1, 40),
        "per_partition": st.booleans(),
    }
)
budgets = st.lists(terms, min_size=1, max_size=3).map(
    lambda found: tuple(Budget(id=number, **one) for number, one in enumerate(found))
)
weights = st.integers(1, 10)
arrivals = st.lists(
    st.tuples(st.integers(0, 1_500), st.sampled_from(PARTITIONS), weights), min_size=1, max_size=60
)
jumps = st.lists(st.tuples(st.integers(-2_000, 2_000), weights), max_size=30)


class Taken(NamedTuple):
    """Tokens that were taken, by a job that was admitted or by a later correction of its weight."""

    at: int
    partition: str
    tokens: int
    by_admission: bool = True


class Far:
    """The store as one rate class knows it: bucket rows that outlive each admit."""

    def __init__(self, *found: Budget) -> None:
        self.budgets = found
        self.rows: dict[tuple[int, str], Bucket] = {}

    def at(self, now_ms: int, **options: int) -> RateState:
        return RateState("c", now_ms, self.budgets, buckets=self.rows, **options)

    def ask(self, now_ms: int, partition: str, weight: int) -> bool:
        state = self.at(now_ms)
        if state.lacking(partition, weight):
            return False
        state.charge(partition, weight)
        return True


def budget(limit: int, window_ms: int, burst: int = 0, number: int = 1, **options: bool) -> Budget:
    return Budget(id=number, limit=limit, window_ms=window_ms, burst=burst or limit, **options)


def worst_excess(one: Budget, taken: list[Taken]) -> int:
    """The most above the steady refill in any window up to an admission, in tokens times window_ms."""
    worst = 0
    for partition in PARTITIONS if one.per_partition else [None]:
        excess, before = 0, 0
        for take in taken:
            if partition in (None, take.partition):
                excess = max(0, excess - one.limit * (take.at - before)) + take.tokens * one.window_ms
                before = take.at
                worst = max(worst, excess if take.by_admission else 0)
    return worst


@settings(max_examples=200, deadline=None)
@given(found=budgets, asked=arrivals)
def test_no_window_of_any_length_sees_more_than_burst_and_refill_of_any_budget(found, asked):
    far, taken, now_ms = Far(*found), [], 1_000_000
    for pause, partition, weight in asked:
        now_ms += pause
        if far.ask(now_ms, partition, weight):
            taken.append(Taken(now_ms, partition, weight))

    for one in found:
        assert worst_excess(one, taken) <= one.burst * one.window_ms


@settings(max_examples=200, deadline=None)
@given(terms=terms, asked=jumps)
def test_a_clock_that_goes_back_gives_no_token_twice(terms, asked):
    one = Budget(id=1, **terms)
    far, taken, now_ms, latest = Far(one), [], 1_000_000, 0
    for jump, weight in asked:
        now_ms += jump
        latest = max(latest, now_ms)
        if far.ask(now_ms, "", weight):
            taken.append(Taken(latest, "", weight))

    assert worst_excess(one, taken) <= one.burst * one.window_ms


@settings(max_examples=200, deadline=None)
@given(found=budgets, asked=arrivals, corrections=st.lists(st.integers(-10, 10), min_size=60, max_size=60))
def test_corrections_are_made_up_for_by_what_is_admitted_later(found, asked, corrections):
    far, taken, now_ms = Far(*found), [], 1_000_000
    for (pause, partition, weight), correction in zip(asked, corrections, strict=False):
        now_ms += pause
        if far.ask(now_ms, partition, weight):
            more = max(correction, -weight)  # a job costs at least nothing
            far.at(now_ms).charge(partition, more)
            taken += [Taken(now_ms, partition, weight), Taken(now_ms, partition, more, by_admission=False)]

    for one in found:
        assert worst_excess(one, taken) <= one.burst * one.window_ms


@settings(max_examples=200, deadline=None)
@given(
    found=budgets,
    before=jumps,
    later=st.integers(-1_000, 1_000),
    debit=st.integers(0, 60),
    partition=st.sampled_from(PARTITIONS),
    weight=st.integers(1, 45),
    held_for=st.integers(-100, 5_000),
)
def test_the_wait_is_exact_to_the_millisecond(found, before, later, debit, partition, weight, held_for):
    far, now_ms = Far(*found), 1_000_000
    for jump, cost in before:
        now_ms += jump
        far.ask(now_ms, partition, cost)
    far.at(now_ms).charge(partition, debit)
    now_ms += later
    held = {"held_until_ms": now_ms + held_for}

    wait = far.at(now_ms, **held).wait_ms(partition, weight)

    def fits(at_ms: int) -> bool:
        state = deepcopy(far).at(at_ms, **held)
        return state.is_open and not state.lacking(partition, weight)

    if wait is None:
        assert far.at(now_ms).too_heavy(weight)
    else:
        assert fits(now_ms + wait)
        assert wait == 0 or not fits(now_ms + wait - 1)


@settings(max_examples=60, deadline=None)
@given(limit=st.integers(1, 50), window_ms=st.integers(1, 500), burst=st.integers(1, 50), every=st.integers(1, 9))
def test_whoever_is_always_hungry_gets_every_token_and_no_more(limit, window_ms, burst, every):
    far = Far(budget(limit, window_ms, burst))
    end = 500 - 500 % every

    got = 0
    for now_ms in range(0, end + 1, every):
        while far.ask(now_ms, "", 1):
            got += 1

    whole = burst + limit * end // window_ms
    never_full = limit * every <= window_ms * (burst - 1)
    assert got == whole if never_full else got <= whole


@settings(max_examples=200, deadline=None)
@given(terms=terms, asked=arrivals)
def test_what_one_partition_draws_is_nothing_to_another(terms, asked):
    one = Budget(id=1, **{**terms, "per_partition": True})
    shared, alone, now_ms = Far(one), Far(one), 1_000_000
    answers, expected = [], []
    for pause, partition, weight in asked:
        now_ms += pause
        answer = shared.ask(now_ms, partition, weight)
        if partition == "a":
            answers.append(answer)
            expected.append(alone.ask(now_ms, partition, weight))

    assert answers == expected


def test_a_budget_of_the_class_is_one_bucket_for_all_partitions():
    far = Far(budget(3, 1_000))

    assert [far.ask(0, partition, 1) for partition in "aabb"] == [True, True, True, False]


def test_no_window_of_one_length_sees_more_than_twice_the_limit_with_the_default_burst():
    far = Far(budget(100, 60_000))
    taken = [at for at in range(0, 300_000, 10) if far.ask(at, "", 1)]

    busiest = max(sum(start <= at <= start + 60_000 for at in taken) for start in taken[:200])

    assert 100 <= busiest <= 200


def test_a_burst_of_one_spaces_jobs_evenly():
    far = Far(budget(5, 1_000, burst=1))

    assert [at for at in range(1_000) if far.ask(at, "", 1)] == [0, 200, 400, 600, 800]


@pytest.mark.parametrize("limit", [1, 3, 7, 999])
def test_nothing_is_rounded_away_by_asking_every_millisecond(limit):
    far = Far(budget(limit, 1_000, burst=limit))
    for at in range(3_001):
        far.at(at).lacking("", limit)
        if at == 0:
            far.at(at).charge("", limit)

    assert far.rows[1, ""].level == limit * 1_000


def test_a_debt_is_paid_before_anything_is_admitted():
    far = Far(budget(5, 1_000))
    far.at(0).charge("", 8)

    assert far.at(0).wait_ms("", 1) == 800
    assert not far.ask(799, "", 1)
    assert far.ask(800, "", 1)


def test_a_refund_never_lifts_a_bucket_above_its_burst():
    far = Far(budget(5, 1_000))
    far.at(0).charge("", 1)
    far.at(1_000).charge("", -1)

    assert far.rows[1, ""].is_full
    assert far.rows[1, ""].tokens == 5


def test_no_debt_outgrows_the_column_it_is_kept_in():
    far = Far(budget(1, 31 * 24 * 3600 * 1000))
    for _ in range(5):
        far.at(0).charge("", 2**31 - 1)

    assert far.rows[1, ""].level == FLOOR


def test_a_bucket_that_nobody_draws_from_is_soon_as_good_as_none():
    far = Far(budget(5, 1_000, burst=10))
    far.at(0).charge("", 10)

    far.at(1_999).lacking("", 1)
    assert not far.rows[1, ""].is_full
    far.at(2_000).lacking("", 1)
    assert far.rows[1, ""] == Bucket.full(budget(5, 1_000, burst=10), 2_000)


def test_a_lowered_burst_counts_at_once():
    far = Far(budget(10, 1_000))
    far.at(0).lacking("", 1)
    lowered = Far(budget(10, 1_000, burst=2))
    for key, row in far.rows.items():
        lowered.rows[key] = Bucket(lowered.budgets[0], row.level, row.refilled_at_ms)
        lowered.rows[key].refill(0)  # as whoever reads a row does

    assert [lowered.ask(0, "", 1) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("options", "closed"),
    [
        ({}, ""),
        ({"held_until_ms": 1_000}, ""),
        ({"held_until_ms": 1_001}, "held back"),
        ({"paused": True, "held_until_ms": 1_001}, "paused"),
        ({"saving": True}, "saving tokens for a heavier job"),
    ],
)
def test_a_class_says_why_it_is_closed(options, closed):
    state = RateState("c", 1_000, **options)

    assert (state.closed, state.is_open) == (closed, not closed)


def test_only_a_weight_above_the_smallest_burst_is_too_heavy():
    small = budget(1, 1_000, burst=3, number=2)
    state = RateState("c", 0, (budget(100, 1_000), small))

    assert state.too_heavy(3) is None
    assert state.too_heavy(4) is small
    assert state.wait_ms("", 4) is None


def test_a_budget_reads_as_people_say_it():
    assert str(budget(5, 1_000)) == "5 per 1 s"
    assert str(budget(100, 60_000, per_partition=True)) == "100 per 60 s and partition"
