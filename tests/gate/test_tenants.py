"""Loud, slow and blocked tenants hurt nobody else, at any depth."""

from __future__ import annotations

from collections import Counter

from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.core.states import Event
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.models import RateBudget, RateClass
from tests.support.backlog import Backlog, load
from tests.support.plans import watched

SUCCESS = Outcome(event=Event.SUCCEED)


def test_a_hundred_thousand_jobs_of_one_tenant_do_not_delay_ten_each_of_ten_others(now):
    load(
        Backlog(count=100_000, partition="a", payloads=False),
        Backlog(count=100, prefix="q", partition="quiet", partitions=10),
    )
    gate = Gate("w1")
    done: Counter[str] = Counter()

    while sum(done[tenant] for tenant in done if tenant != "a") < 100:
        claims = gate.admit(11)
        assert len(claims) == 11
        ack([(claim, SUCCESS) for claim in claims])
        done.update(claim.partition_key for claim in claims)

    # Eleven tenants with work: each had an eleventh of the slots until the ten were done.
    assert done["a"] <= 10 + 11


def test_a_tenant_alone_uses_every_slot(now):
    load(Backlog(count=1_000, partition="a"))

    assert len(Gate("w1").admit(50)) == 50


def test_a_tenant_whose_jobs_are_a_hundred_times_slower_holds_at_most_its_share_and_one(now):
    load(
        Backlog(count=500, partition="slow", payloads=False),
        Backlog(count=2_000, prefix="f", partition="fast", payloads=False),
    )
    gates = [Gate(f"w{number}") for number in range(2)]
    slots, ends = {gate.worker_id: 4 for gate in gates}, {}
    held_by_slow = []

    for tick in range(150):
        finished = [claim for claim, end in ends.items() if end <= tick]
        ack([(claim, SUCCESS) for claim in finished])
        for claim in finished:
            del ends[claim]
            slots[claim.worker_id] += 1
        for gate in gates:
            claims: list[Claim] = gate.admit(slots[gate.worker_id])
            slots[gate.worker_id] -= len(claims)
            ends |= {claim: tick + (100 if claim.partition_key == "slow" else 1) for claim in claims}
        held_by_slow.append(sum(claim.partition_key == "slow" for claim in ends))

    assert max(held_by_slow) <= 8 // 2 + 1
    assert min(held_by_slow[1:]) >= 8 // 2 - 1


def test_fifty_thousand_jobs_without_tokens_hide_nothing_and_are_not_read(now):
    row = RateClass.objects.create(name="empty", held_until_ms=now.at_ms + 1)
    RateBudget.objects.create(rate_class=row, limit=1, window_ms=1_000, burst=1)
    load(
        Backlog(count=50_000, rate_class="empty", payloads=False),
        Backlog(count=10, prefix="free", rate_class="free"),
    )

    # The first look passes over the dead rows that other tests left in the index, and marks them.
    assert [claim.id[:4] for claim in Gate("w0").admit(1)] == ["free"]
    with watched() as watch:
        claims = Gate("w1").admit(20)

    assert [claim.id[:4] for claim in claims] == ["free"] * 9
    # Buffers, or steps of SQLite's machine: a few dozen pages against the thousands of the backlog.
    assert watch.touched < 5_000
