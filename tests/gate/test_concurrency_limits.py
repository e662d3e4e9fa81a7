"""Concurrency ceilings, counted from running rows inside the claim."""

from __future__ import annotations

from collections import Counter

import pytest

from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import Event, State
from headgate_django.exceptions import LeaseLost
from headgate_django.gate.explain import explain
from headgate_django.lifecycle.ack import ack_one
from headgate_django.models import ConcurrencyLimit, Job, Worker
from tests.support.builders import queued


def limit(name: str, scope: str, key: str, most: int, strategy: str = "queue") -> None:
    ConcurrencyLimit.objects.create(name=name, scope=scope, key=key, max_concurrent=most, on_saturated=strategy)


def test_a_queue_never_runs_more_than_its_ceiling(now, admit):
    limit("three", "queue", "q", 3)
    [queued(queue="q") for _ in range(10)]
    other = queued(queue="other")

    admitted = admit(10)
    assert Counter(claim.queue for claim in admitted) == {"q": 3, "other": 1}
    assert admit(10, worker_id="w2") == []

    ack_one(next(claim for claim in admitted if claim.queue == "q"), Outcome(event=Event.SUCCEED))
    assert len(admit(10, worker_id="w2")) == 1
    assert Job.objects.get(pk=other.pk).state == State.RUNNING


def test_each_partition_of_a_queue_has_its_own_places(now, admit):
    limit("one-each", "partition", "q", 1)
    for tenant in "aab":
        queued(queue="q", partition_key=tenant)

    assert sorted(claim.partition_key for claim in admit(10)) == ["a", "b"]


def test_a_rate_class_is_counted_over_all_queues(now, admit):
    limit("api", "rate_class", "api", 2)
    for queue in "abc":
        queued(queue=queue, rate_class="api")
    queued(queue="a")

    assert Counter(claim.rate_class for claim in admit(10)) == {"api": 2, "": 1}


def test_several_limits_hold_at_once(now, admit):
    limit("queue", "queue", "q", 4)
    limit("tenant", "partition", "q", 3)
    for tenant in "aaaaab":
        queued(queue="q", partition_key=tenant)

    assert Counter(claim.partition_key for claim in admit(10)) == {"a": 3, "b": 1}


@pytest.mark.parametrize(
    ("strategy", "state"), [("discard", State.ARCHIVED), ("cancel_incoming", State.CANCELLED)]
)
def test_a_job_that_finds_the_scope_full_is_taken_out(now, admit, strategy, state):
    limit("one", "queue", "q", 1, strategy)
    jobs = [queued(queue="q") for _ in range(3)]

    assert len(admit(10)) == 1

    ended = [Job.objects.get(pk=job.pk) for job in jobs[1:]]
    assert {(job.state, job.error_class, job.attempt) for job in ended} == {(state, "Saturated", 0)}
    assert "one is full" in ended[0].error_summary


def test_the_newest_wins_and_only_as_many_as_needed_are_cancelled_and_fenced(now, admit):
    limit("two", "queue", "q", 2, "cancel_running")
    [queued(queue="q") for _ in range(2)]
    oldest, newer = admit(10)
    now.advance(seconds=1)
    queued(queue="q")

    [newest] = admit(10, worker_id="w2")

    states = dict(Job.objects.values_list("id", "state"))
    assert states == {oldest.id: State.CANCELLED, newer.id: State.RUNNING, newest.id: State.RUNNING}
    with pytest.raises(LeaseLost):
        ack_one(oldest, Outcome(event=Event.SUCCEED))
    assert Job.objects.get(pk=oldest.id).error_class == "Displaced"


def test_one_admit_never_displaces_its_own_claims(now, admit):
    limit("two", "queue", "q", 2, "cancel_running")
    [queued(queue="q") for _ in range(6)]

    assert len(admit(10)) == 2
    assert Job.objects.filter(state=State.CANCELLED).count() == 0
    assert len(admit(10)) == 2
    assert Job.objects.filter(state=State.CANCELLED).count() == 2
    assert Job.objects.filter(state=State.RUNNING).count() == 2


def test_one_cancelled_job_makes_room_under_all_limits_that_count_it(now, admit):
    limit("queue", "queue", "q", 2, "cancel_running")
    limit("tenant", "partition", "q", 1, "cancel_running")
    older = queued(queue="q", partition_key="b")
    admit(10)
    now.advance(seconds=1)
    same = queued(queue="q", partition_key="a")
    admit(10)
    newest = queued(queue="q", partition_key="a")

    assert [claim.id for claim in admit(10)] == [newest.id]

    states = dict(Job.objects.values_list("id", "state"))
    assert states == {older.id: State.RUNNING, same.id: State.CANCELLED, newest.id: State.RUNNING}


def test_a_lowered_ceiling_is_kept_by_the_next_job_that_displaces(now, admit):
    limit("three", "queue", "q", 3, "cancel_running")
    [queued(queue="q") for _ in range(3)]
    admit(10)
    ConcurrencyLimit.objects.update(max_concurrent=1)
    newest = queued(queue="q")

    assert [claim.id for claim in admit(10, worker_id="w2")] == [newest.id]
    assert Job.objects.filter(state=State.RUNNING).count() == 1


def test_a_place_is_free_again_on_every_way_out(now, admit):
    limit("one", "queue", "q", 1)
    for event in (Event.SUCCEED, Event.RETRY, Event.SKIP, Event.SNOOZE, Event.INTERRUPT, Event.UNDECODABLE):
        queued(queue="q")
        [claim] = admit(10)
        ack_one(claim, Outcome(event=event, delay_ms=10**9))
        if event is Event.INTERRUPT:
            [claim] = admit(10)
            ack_one(claim, Outcome(event=Event.SUCCEED))

    assert Job.objects.filter(state=State.RUNNING).count() == 0


def test_a_lowered_ceiling_counts_at_once_and_ends_nothing(now, admit):
    limit("three", "queue", "q", 3)
    [queued(queue="q") for _ in range(6)]
    claims = admit(10)
    ConcurrencyLimit.objects.update(max_concurrent=1)

    ack_one(claims[0], Outcome(event=Event.SUCCEED))
    ack_one(claims[1], Outcome(event=Event.SUCCEED))

    assert admit(10) == []
    assert Job.objects.filter(state=State.RUNNING).count() == 1


def test_explain_names_the_limit_and_who_holds_the_places(now, admit):
    Worker.objects.beat("w1", hostname="h", pid=1, version="0", queues={"*": 1}, status="running", capacity=1)
    limit("one", "queue", "q", 1)
    first, second = queued(queue="q"), queued(queue="q")
    assert explain(first).admissible
    assert explain(second).blocked_by == "concurrency limit"
    admit(10)

    explanation = explain(second)

    assert (explanation.admissible, explanation.blocked_by) == (False, "concurrency limit")
    assert f"{first.id} on w1" in explanation.detail
