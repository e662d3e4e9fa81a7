"""The drawn jobs are parted turn by turn, and nobody overtakes inside a stream."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate_django.core.allocation import Group
from headgate_django.core.buckets import Budget, RateState
from headgate_django.core.drawing import Candidate
from headgate_django.core.screening import judge
from headgate_django.core.states import Event
from headgate_django.core.turnstile import Ceiling, Saturated, Scope, Turnstile

A, B, C = Group("q", "a"), Group("q", "b"), Group("q", "c")
NOW = 1_000


def job(
    name: str, group: Group = A, *, rate_class: str = "", weight: int = 1, deadline: int = 0, poison: str = ""
):
    return Candidate((0, 0, name), group, rate_class, weight, deadline, poison)


def limited(tokens: int, *, per_partition: bool = False) -> Turnstile:
    budget = Budget(id=1, limit=1, window_ms=1_000, burst=tokens, per_partition=per_partition)
    return Turnstile({"c": RateState("c", NOW, (budget,))})


def names(found) -> list[str]:
    return [one.id for one in found]


def test_a_group_gets_as_many_jobs_as_turns_and_the_rest_is_surplus():
    verdicts = judge([job("1"), job("2"), job("3")], [A, A], NOW, Turnstile())

    assert (names(verdicts.admitted), names(verdicts.surplus)) == (["1", "2"], ["3"])


def test_scarce_tokens_follow_the_turns():
    waiting = [job(f"{group.partition_key}{n}", group, rate_class="c") for group in (A, B, C) for n in range(3)]

    verdicts = judge(waiting, [B, A, C, B, A, C, B, A, C], NOW, limited(4))

    assert names(verdicts.admitted) == ["b0", "a0", "c0", "b1"]


def test_a_turn_without_tokens_goes_to_the_next_job_of_another_class_of_the_group():
    waiting = [job("1", rate_class="c"), job("2", rate_class="c"), job("3", rate_class="c"), job("4")]

    verdicts = judge(waiting, [A, A, A], NOW, limited(1))

    assert (names(verdicts.admitted), verdicts.held) == (["1", "4"], {(A, "c")})


def test_a_held_job_holds_those_behind_it_in_its_stream_and_nobody_elses():
    waiting = [
        job("heavy", rate_class="c", weight=3),
        job("light", rate_class="c"),
        job("other", B, rate_class="c"),
    ]

    verdicts = judge(waiting, [A, A, B], NOW, _spent(limited(3, per_partition=True), A, 1))

    assert names(verdicts.admitted) == ["other"]
    assert verdicts.held == {(A, "c")}


def test_a_heavy_job_in_its_turn_is_not_overtaken_by_other_tenants_either():
    waiting = [job("heavy", rate_class="c", weight=3), job("light", B, rate_class="c"), job("free", B)]

    verdicts = judge(waiting, [A, B, B], NOW, _spent(limited(3), A, 1))

    assert names(verdicts.admitted) == ["free"]


def _spent(turnstile: Turnstile, group: Group, tokens: int) -> Turnstile:
    turnstile.classes["c"].charge(group.partition_key, tokens)
    return turnstile


def test_unfit_jobs_leave_the_queue_and_use_no_turn():
    waiting = [job("late", deadline=NOW), job("poison", poison="f"), job("good", deadline=NOW + 1)]

    verdicts = judge(waiting, [A], NOW, Turnstile())

    assert names(verdicts.admitted) == ["good"]
    assert {(one.candidate.id, one.event) for one in verdicts.refused} == {
        ("late", Event.EXPIRE),
        ("poison", Event.QUARANTINE),
    }


def test_a_job_that_can_never_run_leaves_and_its_turn_goes_on():
    verdicts = judge([job("9", rate_class="c", weight=9), job("1", rate_class="c")], [A], NOW, limited(3))

    [refusal] = verdicts.refused
    assert (refusal.event, refusal.error[0], names(verdicts.admitted)) == (Event.DISCARD, "TooHeavy", ["1"])


def test_jobs_refused_by_a_full_scope_say_which():
    full = Ceiling(
        name="one", scope=Scope.QUEUE, key="q", max_concurrent=1, on_saturated=Saturated.CANCEL_INCOMING
    )

    verdicts = judge([job("1"), job("2")], [A, A], NOW, Turnstile(ceilings=[full]))

    [refusal] = verdicts.refused
    assert (refusal.candidate.id, refusal.event) == ("2", Event.CANCEL)
    assert refusal.error == ("Saturated", "concurrency limit one is full", "cancel incoming")


classes = st.sampled_from(["", "c", "d"])
lines = st.lists(st.tuples(st.sampled_from([A, B, C]), classes, st.integers(1, 6)), max_size=40).map(
    lambda found: sorted(
        (
            job(f"{number:03}", group, rate_class=name, weight=weight)
            for number, (group, name, weight) in enumerate(found)
        ),
        key=lambda one: one.group,
    )
)


@settings(max_examples=300, deadline=None)
@given(
    waiting=lines,
    turns=st.lists(st.sampled_from([A, B, C]), max_size=40),
    tokens=st.integers(1, 30),
    most=st.integers(1, 20),
    strategy=st.sampled_from(Saturated),
)
def test_what_leaves_a_stream_is_its_beginning_and_every_job_has_one_verdict(
    waiting, turns, tokens, most, strategy
):
    turnstile = limited(tokens)
    turnstile.ceilings = [
        Ceiling(name="q", scope=Scope.QUEUE, key="q", max_concurrent=most, on_saturated=strategy),
    ]

    verdicts = judge(waiting, turns, NOW, turnstile)

    admitted, refused = verdicts.admitted, [one.candidate for one in verdicts.refused]
    leaving = {one.id for one in admitted + refused}
    held = [one for one in waiting if (one.group, one.rate_class) in verdicts.held and one.id not in leaving]
    assert sorted(names(admitted + refused + verdicts.surplus + held)) == sorted(names(waiting))
    assert Counter(one.group for one in admitted) <= Counter(turns)
    for key in {(one.group, one.rate_class) for one in waiting}:
        stream = [one.id in leaving for one in waiting if (one.group, one.rate_class) == key]
        assert stream == sorted(stream, reverse=True)
