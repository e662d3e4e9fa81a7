"""Rate budgets, decided inside the claim."""

from __future__ import annotations

import pytest

from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import Event, State
from headgate_django.exceptions import InvalidJob, LeaseLost
from headgate_django.gate.explain import explain
from headgate_django.lifecycle.ack import ack, ack_one
from headgate_django.models import Job, RateBucket, RateBudget, RateClass, Worker
from headgate_django.models.rates import IDLE_MS, forget_full
from tests.support.builders import queued


def rate_class(
    name: str, *budgets: tuple[int, int], burst: int = 0, per_partition: bool = False, **columns
) -> None:
    row = RateClass.objects.create(name=name, **columns)
    for limit, window_ms in budgets:
        RateBudget.objects.create(
            rate_class=row,
            limit=limit,
            window_ms=window_ms,
            burst=burst or limit,
            per_partition=per_partition,
        )


def waiting(count: int, **options) -> list[Job]:
    return [queued(rate_class=options.pop("rate_class", "c"), **options) for _ in range(count)]


def test_a_class_admits_its_burst_and_then_as_the_clock_refills_it(now, admit):
    rate_class("c", (5, 1_000))
    [queued(rate_class="c") for _ in range(20)]

    assert len(admit(10)) == 5
    assert len(admit(10)) == 0
    now.advance(milliseconds=199)
    assert len(admit(10)) == 0
    now.advance(milliseconds=1)
    assert len(admit(10)) == 1
    now.advance(seconds=60)
    assert len(admit(10)) == 5


def test_two_budgets_hold_at_once(now, admit):
    rate_class("c", (2, 1_000), (3, 60_000))
    [queued(rate_class="c") for _ in range(20)]

    admitted = []
    for _ in range(60):
        admitted.append(len(admit(10)))
        now.advance(seconds=1)

    assert admitted[:3] == [2, 1, 0]
    assert sum(admitted) == 5  # three at the start, and one every 20 s


def test_a_per_partition_budget_holds_for_each_tenant(now, admit):
    rate_class("c", (2, 60_000), per_partition=True)
    for tenant in "ab":
        [queued(rate_class="c", partition_key=tenant) for _ in range(5)]

    assert sorted(claim.partition_key for claim in admit(10)) == ["a", "a", "b", "b"]
    assert admit(10) == []


def test_weights_are_what_a_job_costs(now, admit):
    rate_class("c", (10, 1_000))
    [queued(rate_class="c", weight=4) for _ in range(5)]

    assert len(admit(10)) == 2


def test_a_heavy_job_is_not_overtaken_by_light_ones_behind_it(now, admit):
    rate_class("c", (5, 1_000))
    first, heavy, light = (queued(rate_class="c", weight=weight) for weight in (2, 4, 1))

    assert [claim.id for claim in admit(10)] == [first.id]
    now.advance(milliseconds=200)
    assert [claim.id for claim in admit(10)] == [heavy.id]
    now.advance(milliseconds=200)
    assert [claim.id for claim in admit(10)] == [light.id]


def test_a_job_heavier_than_the_burst_is_archived_with_the_reason_never_stuck(now, admit):
    heavy, light = queued(rate_class="c", weight=6), queued(rate_class="c")
    rate_class("c", (5, 1_000))  # configured only after the job was stored

    assert [claim.id for claim in admit(10)] == [light.id]
    heavy.refresh_from_db()
    assert (heavy.state, heavy.error_class, heavy.attempt) == (State.ARCHIVED, "TooHeavy", 0)
    assert "weight 6" in heavy.error_summary


def test_an_unconfigured_class_is_unlimited_and_leaves_no_rows(now, admit):
    [queued(rate_class="nobody-configured") for _ in range(5)]

    assert len(admit(10)) == 5
    assert RateClass.objects.count() == RateBucket.objects.count() == 0


def test_a_paused_class_admits_nothing_and_its_jobs_are_untouched(now, admit):
    rate_class("c", (5, 1_000), paused=True)
    job, other = queued(rate_class="c"), queued()
    before = Job.objects.filter(pk=job.pk).values().get()

    assert [claim.id for claim in admit(10)] == [other.id]
    assert Job.objects.filter(pk=job.pk).values().get() == before


def test_ten_jobs_of_another_class_pass_a_blocked_one_in_the_same_partition(now, admit):
    rate_class("c", (1, 3_600_000))
    [queued(rate_class="c") for _ in range(50)]
    others = {queued(rate_class="free").id for _ in range(10)}

    admitted = {claim.id for claim in admit(20)}

    assert others <= admitted
    assert len(admitted) == 11


def test_waiting_writes_nothing(now, admit):
    rate_class("c", (1, 60_000))
    [queued(rate_class="c") for _ in range(5)]
    admit(10)
    before = list(RateBucket.objects.values()), list(Job.objects.order_by("id").values())

    assert admit(10) == []

    assert (list(RateBucket.objects.values()), list(Job.objects.order_by("id").values())) == before


def test_a_rate_limited_run_costs_no_attempt_and_holds_the_whole_class_back(now, admit):
    jobs = [queued(rate_class="c") for _ in range(3)]
    [claim] = admit(1)

    ack_one(claim, Outcome(event=Event.RATE_LIMIT, delay_ms=30_000, hold_class_ms=30_000))

    assert admit(10) == []
    ended = Job.objects.get(pk=jobs[0].pk)
    assert (ended.state, ended.attempt, ended.scheduled_at_ms) == (State.SCHEDULED, 0, now.at_ms + 30_000)
    now.advance(milliseconds=29_999)
    assert admit(10) == []
    now.advance(milliseconds=1)
    assert len(admit(10)) == 3


def test_a_hold_is_never_shortened_by_a_later_report(now, admit):
    [queued(rate_class="c") for _ in range(2)]
    claims = admit(2)

    ack_one(claims[0], Outcome(event=Event.RATE_LIMIT, delay_ms=60_000, hold_class_ms=60_000))
    ack_one(claims[1], Outcome(event=Event.RATE_LIMIT, delay_ms=1_000, hold_class_ms=1_000))

    assert RateClass.objects.get().held_until_ms == now.at_ms + 60_000


@pytest.mark.parametrize(("actual", "left"), [(0, 5), (1, 4), (3, 2), (8, -3)])
def test_the_reported_weight_corrects_the_charge_at_ack(now, admit, actual, left):
    rate_class("c", (5, 1_000))
    queued(rate_class="c", weight=3)
    [claim] = admit(1)

    ack_one(claim, Outcome(event=Event.SUCCEED, actual_weight=actual))

    assert RateBucket.objects.get().level == left * 1_000


def test_a_claim_that_lost_its_lease_corrects_nothing(now, admit):
    rate_class("c", (5, 1_000))
    queued(rate_class="c", weight=3)
    [claim] = admit(1)
    ack([(claim, Outcome(event=Event.INTERRUPT))])

    with pytest.raises(LeaseLost):
        ack_one(claim, Outcome(event=Event.SUCCEED, actual_weight=0, hold_class_ms=1_000))

    assert RateBucket.objects.get().level == 2_000
    assert RateClass.objects.get().held_until_ms == 0


def test_a_run_of_a_class_without_budgets_reports_to_nobody(now, admit):
    queued(rate_class="free")
    [claim] = admit(1)

    ack_one(claim, Outcome(event=Event.SUCCEED, actual_weight=9))

    assert RateBucket.objects.count() == 0


def test_a_changed_limit_counts_at_once(now, admit):
    rate_class("c", (1, 60_000))
    [queued(rate_class="c") for _ in range(20)]
    admit(10)
    RateBudget.objects.update(limit=60, burst=60)

    now.advance(seconds=5)

    assert len(admit(10)) == 5


@pytest.mark.parametrize(
    ("columns", "blocked_by", "words"),
    [
        ({"paused": True}, "paused rate class", "c is paused"),
        ({"held_until_ms": 10**15}, "rate class held back", "asked for a pause"),
        ({}, "rate budget", "1 per 60 s: 0 tokens are left, the job needs 1"),
    ],
)
def test_explain_names_the_budget_and_when_it_has_room(now, admit, columns, blocked_by, words):
    Worker.objects.beat("w1", hostname="h", pid=1, version="0", queues={"*": 1}, status="running", capacity=1)
    rate_class("c", (1, 60_000), **columns)
    first, second = queued(rate_class="c"), queued(rate_class="c")
    admit(1)

    explanation = explain(second if Job.objects.filter(pk=first.pk, state=State.RUNNING).exists() else first)

    assert (explanation.admissible, explanation.blocked_by) == (False, blocked_by)
    assert words in explanation.detail
    assert blocked_by != "rate budget" or explanation.eta_ms == 60_000


def test_explain_counts_the_tokens_of_the_jobs_before(now, admit):
    Worker.objects.beat("w1", hostname="h", pid=1, version="0", queues={"*": 1}, status="running", capacity=1)
    rate_class("c", (3, 60_000))
    jobs = [queued(rate_class="c") for _ in range(5)]

    answers = [explain(job).admissible for job in jobs]
    admitted = {claim.id for claim in admit(10)}

    assert answers == [True, True, True, False, False]
    assert [job.id in admitted for job in jobs] == answers


def test_a_job_heavier_than_the_burst_is_refused_at_enqueue_when_the_burst_is_known(now):
    rate_class("c", (5, 1_000), (50, 60_000))

    with pytest.raises(InvalidJob, match="weight: 6 is above the burst of rate class c, which is 5"):
        queued(rate_class="c", weight=6)

    assert Job.objects.count() == 0
    assert queued(rate_class="c", weight=5).weight == 5
    assert queued(rate_class="unknown", weight=6).weight == 6


def test_idle_buckets_that_are_full_again_are_forgotten_and_others_stay(now, admit):
    rate_class("c", (60, 60_000), per_partition=True)
    rate_class("slow", (1, 86_400_000))
    for tenant in "ab":
        queued(rate_class="c", partition_key=tenant)
    queued(rate_class="slow")
    admit(10)
    assert RateBucket.objects.count() == 3
    assert forget_full(limit=100, using="default") == 0

    now.advance(milliseconds=IDLE_MS + 2_000)
    queued(rate_class="c", partition_key="b")
    admit(10)

    assert forget_full(limit=100, using="default") == 1
    left = set(RateBucket.objects.values_list("budget__rate_class", "partition_key"))
    assert left == {("c", "b"), ("slow", "")}
