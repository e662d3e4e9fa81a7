"""Tokens that several tenants want: nobody is left out, neither the last in the alphabet nor the heaviest."""

from __future__ import annotations

from collections import Counter

from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.core.states import Event
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.models import RateBudget, RateClass
from tests.support.builders import queued


def rate_class(name: str, limit: int, window_ms: int, burst: int) -> None:
    row = RateClass.objects.create(name=name)
    RateBudget.objects.create(rate_class=row, limit=limit, window_ms=window_ms, burst=burst)


def finish(claims: list[Claim]) -> None:
    assert not ack([(claim, Outcome(event=Event.SUCCEED)) for claim in claims])


def served(now, gate: Gate, admits: int, every_ms: int) -> Counter[str]:
    """What each tenant gets of a worker with many free slots, whose jobs end before its next admit."""
    given: Counter[str] = Counter()
    for _ in range(admits):
        claims = gate.admit(20)
        given.update(claim.partition_key for claim in claims)
        finish(claims)
        now.advance(milliseconds=every_ms)
    return given


def test_scarce_tokens_go_round_the_tenants(now):
    rate_class("api", 10, 1_000, burst=1)
    for tenant in "abcde":
        [queued(rate_class="api", partition_key=tenant) for _ in range(20)]

    given = served(now, Gate("w1"), admits=20, every_ms=100)

    assert given == dict.fromkeys("abcde", 4)


def test_a_burst_of_tokens_is_parted_among_the_tenants(now):
    rate_class("api", 6, 1_000, burst=6)
    for tenant in "abc":
        [queued(rate_class="api", partition_key=tenant) for _ in range(20)]

    claims = Gate("w1").admit(20)

    assert Counter(claim.partition_key for claim in claims) == {"a": 2, "b": 2, "c": 2}


def test_a_heavy_job_of_one_tenant_is_not_starved_by_the_light_ones_of_others(now):
    rate_class("api", 10, 1_000, burst=5)
    for tenant in "abc":
        [queued(rate_class="api", partition_key=tenant) for _ in range(40)]
    queued(rate_class="api", partition_key="heavy", weight=5)

    given = served(now, Gate("w1"), admits=20, every_ms=100)

    assert given["heavy"] == 1
    assert given.total() == 1 + 5 + 19 - 5  # every token is used, and five of them by the heavy job
