"""Ceilings and rate classes as one question: never exceeded, and the same answer for gate and explain."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate_django.core.allocation import Stream
from headgate_django.core.buckets import Budget, RateState
from headgate_django.core.turnstile import Answer, Ceiling, Ruling, Saturated, Scope, Seat, Turnstile

HOLD, ADMIT = Answer.HOLD, Answer.ADMIT
S = Stream("q", "a", "c", "")

streams = st.builds(
    Stream, st.sampled_from("pq"), st.sampled_from("ab"), st.sampled_from(["", "c", "d"]), st.just("")
)


def ceilings(*strategies: Saturated) -> st.SearchStrategy[list[Ceiling]]:
    one = st.tuples(
        st.sampled_from(Scope),
        st.sampled_from("pqcd"),
        st.integers(1, 4),
        st.sampled_from(strategies or Saturated),
    )
    return st.lists(one, max_size=4).map(
        lambda found: [
            Ceiling(name=f"l{number}", scope=scope, key=key, max_concurrent=most, on_saturated=strategy)
            for number, (scope, key, most, strategy) in enumerate(found)
        ]
    )


def ceiling(most: int, strategy: Saturated = Saturated.QUEUE, *, name: str = "l", scope=Scope.QUEUE, key="q"):
    return Ceiling(name=name, scope=scope, key=key, max_concurrent=most, on_saturated=strategy)


def rate(tokens: int, *, burst: int = 10, per_partition: bool = False, number: int = 1, **options) -> RateState:
    """A class of one budget that has so many tokens left."""
    budget = Budget(id=number, limit=1, window_ms=1_000, burst=burst, per_partition=per_partition)
    state = RateState("c", 0, (budget,), **options)
    state.charge("a", burst - tokens)
    return state


class Fleet:
    """What runs, oldest first; each admit counts it anew, as the gate does."""

    def __init__(self, limits: list[Ceiling]) -> None:
        self.limits = limits
        self.running: list[Stream] = []
        self.cancelled = 0

    def turnstile(self) -> Turnstile:
        turnstile = Turnstile(ceilings=self.limits)
        for stream in self.running:
            turnstile.count(stream, 1)
        return turnstile

    def admit(self, wanted: list[Stream]) -> None:
        turnstile, mine = self.turnstile(), []
        for stream in wanted:
            ruling = turnstile.rule(stream, 1)
            if ruling.answer is ADMIT:
                turnstile.admit(stream, 1, ruling)
                freed = [self.displace(full, stream) for full in ruling.displaced]
                if all(freed):
                    mine.append(stream)
                else:
                    turnstile.withdraw(stream, 1)
            self.check(mine)
        self.running += mine

    def displace(self, full: Ceiling, stream: Stream) -> bool:
        seat = full.seat(stream)
        for number, other in enumerate(self.running):
            if full.seat(other) == seat:
                del self.running[number]
                self.cancelled += 1
                return True
        return False

    def check(self, mine: list[Stream]) -> None:
        seats = Counter(
            seat for stream in self.running + mine for one in self.limits if (seat := one.seat(stream))
        )
        most = {one.name: one.max_concurrent for one in self.limits}
        assert all(count <= most[seat.limit] for seat, count in seats.items())


@settings(max_examples=300, deadline=None)
@given(limits=ceilings(), steps=st.lists(st.lists(streams, max_size=6) | st.integers(0, 20), max_size=15))
def test_no_sequence_of_admits_and_ends_exceeds_a_ceiling(limits, steps):
    fleet = Fleet(limits)

    for step in steps:
        if isinstance(step, list):
            fleet.admit(step)
        elif fleet.running:
            fleet.running.pop(step % len(fleet.running))


@settings(max_examples=300, deadline=None)
@given(limits=ceilings(Saturated.CANCEL_RUNNING), before=st.lists(streams), wanted=st.lists(streams, max_size=12))
def test_one_admit_never_displaces_its_own_claims(limits, before, wanted):
    fleet = Fleet(limits)
    fleet.admit(before)
    turnstile = fleet.turnstile()
    others = Counter(turnstile.running)

    displaced: Counter[Seat] = Counter()
    for stream in wanted:
        ruling = turnstile.rule(stream, 1)
        if ruling.answer is ADMIT:
            turnstile.admit(stream, 1, ruling)
            displaced.update(full.seat(stream) for full in ruling.displaced)

    assert displaced <= others


@pytest.mark.parametrize(("running", "displaced"), [(1, 0), (2, 0), (3, 1), (5, 3)])
def test_as_many_are_displaced_as_needed_also_after_the_ceiling_was_lowered(running, displaced):
    full = ceiling(3, Saturated.CANCEL_RUNNING)
    turnstile = Turnstile(ceilings=[full])
    turnstile.count(S, running)

    ruling = turnstile.rule(S, 1)
    turnstile.admit(S, 1, ruling)

    assert ruling == Ruling(ADMIT, displaced=(full,) * displaced)
    assert turnstile.running[full.seat(S)] + turnstile.given[full.seat(S)] <= 3


def test_only_those_running_before_can_be_displaced():
    turnstile = Turnstile(ceilings=[ceiling(2, Saturated.CANCEL_RUNNING)])
    turnstile.count(S, 2)
    answers = []

    for _ in range(3):
        ruling = turnstile.rule(S, 1)
        answers.append(ruling.answer)
        if ruling.answer is ADMIT:
            turnstile.admit(S, 1, ruling)

    assert answers == [ADMIT, ADMIT, HOLD]
    assert "only jobs of this admit" in turnstile.rule(S, 1).reason


ANSWERS = {
    Saturated.QUEUE: HOLD,
    Saturated.DISCARD: Answer.DISCARD,
    Saturated.CANCEL_INCOMING: Answer.CANCEL_INCOMING,
    Saturated.CANCEL_RUNNING: ADMIT,
}


@pytest.mark.parametrize(("first", "second"), list(product(Saturated, repeat=2)))
def test_of_several_full_scopes_the_most_careful_strategy_wins(first, second):
    turnstile = Turnstile(ceilings=[ceiling(1, first, name="one"), ceiling(1, second, name="two")])
    turnstile.count(S, 1)
    careful = list(ANSWERS)

    ruling = turnstile.rule(S, 1)

    assert ruling.answer is ANSWERS[min(first, second, key=careful.index)]


@pytest.mark.parametrize("strategy", Saturated)
def test_a_ceiling_with_a_free_place_says_nothing(strategy):
    turnstile = Turnstile(ceilings=[ceiling(2, strategy)])
    turnstile.count(S, 1)

    assert turnstile.rule(S, 1) == Ruling(ADMIT)


def test_nobody_is_displaced_for_a_job_without_tokens():
    turnstile = Turnstile({"c": rate(0)}, [ceiling(1, Saturated.CANCEL_RUNNING)])
    turnstile.count(S, 1)

    assert turnstile.rule(S, 1).answer is HOLD


@pytest.mark.parametrize(
    ("scope", "key", "seats"),
    [
        (Scope.QUEUE, "q", [Seat("l", ""), Seat("l", ""), None]),
        (Scope.PARTITION, "q", [Seat("l", "a"), Seat("l", "b"), None]),
        (Scope.RATE_CLASS, "c", [Seat("l", ""), None, Seat("l", "")]),
    ],
)
def test_a_limit_counts_what_its_scope_says(scope, key, seats):
    limit = ceiling(1, scope=scope, key=key)

    found = [limit.seat(one) for one in (S, Stream("q", "b", "", ""), Stream("other", "a", "c", ""))]

    assert found == seats


states = st.fixed_dictionaries(
    {"tokens": st.integers(-2, 6), "burst": st.integers(1, 6), "per_partition": st.booleans()},
    optional={
        "paused": st.booleans(),
        "held_until_ms": st.integers(-1, 1),
        "saving": st.booleans(),
    },
)


@settings(max_examples=500, deadline=None)
@given(
    classes=st.dictionaries(st.sampled_from("cd"), states),
    limits=ceilings(),
    running=st.lists(streams, max_size=8),
    given_now=st.lists(streams, max_size=4),
    stream=streams,
    weight=st.integers(1, 8),
)
def test_a_stream_is_blocked_exactly_when_its_lightest_job_is_held(
    classes, limits, running, given_now, stream, weight
):
    turnstile = Turnstile({name: rate(**options) for name, options in classes.items()}, limits)
    for other in running:
        turnstile.count(other, 1)
    for other in given_now:
        turnstile.admit(other, 0, Ruling(ADMIT))

    blocked = turnstile.admits_none(stream)

    assert blocked == (turnstile.rule(stream, 1).answer is HOLD)
    if blocked:
        assert turnstile.rule(stream, weight).answer in (HOLD, Answer.TOO_HEAVY)


@pytest.mark.parametrize("options", [{}, {"paused": True}, {"held_until_ms": 5}])
def test_heavier_than_the_burst_is_said_before_anything_else(options):
    turnstile = Turnstile({"c": rate(0, burst=3, **options)}, [ceiling(1)])
    turnstile.count(S, 1)

    assert turnstile.rule(S, 4).answer is Answer.TOO_HEAVY
    assert turnstile.rule(S, 3).answer is HOLD


def test_an_unconfigured_class_is_unlimited():
    turnstile = Turnstile({"other": rate(0)})

    assert turnstile.rule(S, 1_000_000) == Ruling(ADMIT)
    assert not turnstile.admits_none(S)
    assert not turnstile.charges("c")


def test_an_admitted_job_costs_its_weight_and_one_place():
    state, limit = rate(5), ceiling(9)
    turnstile = Turnstile({"c": state}, [limit])

    turnstile.admit(S, 3, turnstile.rule(S, 3))

    assert state.bucket(state.budgets[0], "a").tokens == 2
    assert turnstile.given == {limit.seat(S): 1}


def test_a_withdrawn_job_gives_its_tokens_back_and_keeps_its_place_this_time():
    state = rate(5)
    turnstile = Turnstile({"c": state}, [ceiling(1)])

    turnstile.admit(S, 3, turnstile.rule(S, 3))
    turnstile.withdraw(S, 3)

    assert state.bucket(state.budgets[0], "a").tokens == 5
    assert turnstile.rule(S, 1).reason == "concurrency limit l is full"
