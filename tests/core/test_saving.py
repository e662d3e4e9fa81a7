"""Tokens are saved up for a heavy job that is held in its turn, and for no other."""

from __future__ import annotations

from headgate_django.core.allocation import Stream
from headgate_django.core.buckets import Budget, RateState
from headgate_django.core.turnstile import Scope, Turnstile
from tests.core.test_turnstile import ceiling, rate

S = Stream("q", "a", "c", "")


def test_tokens_of_the_class_are_saved_for_a_heavy_job_that_is_held_in_its_turn():
    turnstile = Turnstile({"c": rate(2)})
    light = S._replace(partition_key="b")
    assert not turnstile.admits_none(light)

    turnstile.hold(S, turnstile.rule(S, 3))

    assert turnstile.admits_none(light)
    assert turnstile.rule(light, 1).reason == "rate class c is saving tokens for a heavier job"


def test_nothing_is_saved_for_a_job_whose_own_tenant_has_used_its_budget_up():
    shared = Budget(id=1, limit=1, window_ms=1_000, burst=10)
    own = Budget(id=2, limit=1, window_ms=3_600_000, burst=5, per_partition=True)
    state = RateState("c", 0, (shared, own))
    state.charge("a", 5)
    state.bucket(shared, "a").take(3)
    turnstile = Turnstile({"c": state})

    turnstile.hold(S, turnstile.rule(S, 3))

    assert not turnstile.admits_none(S._replace(partition_key="b"))


def test_nothing_is_saved_for_a_job_that_waits_for_a_place():
    turnstile = Turnstile({"c": rate(2)}, [ceiling(1, scope=Scope.PARTITION)])
    turnstile.count(S, 1)

    turnstile.hold(S, turnstile.rule(S, 3))

    assert not turnstile.admits_none(S._replace(partition_key="b"))
