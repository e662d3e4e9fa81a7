"""Crashes, successes, releases, canaries and sweeps of one content at the same time: exact, and nothing stuck."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.core.states import UNFINISHED, Event, State
from headgate_django.duties.quarantine import sweep_quarantine
from headgate_django.exceptions import Quarantined
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.lifecycle.reclaim import EXPIRED, lose_leases, reclaim
from headgate_django.lifecycle.release import release
from headgate_django.models import Job, Quarantine, Suspect
from headgate_django.models.store import retrying_locked, write_transaction
from tests.support.builders import BOOM, EnvelopeFactory
from tests.support.locks import Running, held, together, wait_until_blocked
from tests.support.poison import LEASE, QUEUE, admit_one, in_quarantine, sibling, state

pytestmark = pytest.mark.django_db(transaction=True)
racing = pytest.mark.skipif(
    os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="SQLite has one writer: there is nothing to race"
)

SUCCESS = Outcome(event=Event.SUCCEED)


def lose(claim: Claim, now_ms: int) -> Callable[[], int]:
    def work() -> int:
        with write_transaction("default"):
            return len(lose_leases([(claim, EXPIRED)], now_ms=now_ms, using="default"))

    return lambda: retrying_locked("default", work)


def running_siblings(count: int) -> list[Claim]:
    for _ in range(count):
        sibling()
    return [admit_one(f"w{number}") for number in range(count)]


def test_crashes_that_are_reported_at_the_same_time_are_all_counted(now, settings):
    settings.HEADGATE = {"CRASH_LIMIT": 100}
    claims = running_siblings(8)

    assert together(*[lose(claim, now.at_ms) for claim in claims]) == [1] * 8

    assert Suspect.objects.get().crash_count == 8


def test_of_crashes_at_the_same_time_those_from_the_limit_on_are_quarantined(now):
    claims = running_siblings(8)

    together(*[lose(claim, now.at_ms) for claim in claims])

    states = list(Job.objects.values_list("state", flat=True))
    assert (states.count(State.RETRYABLE), states.count(State.QUARANTINED)) == (2, 6)
    assert Quarantine.objects.get().crash_count == 8


@racing
def test_a_second_crash_waits_for_the_first_and_counts_on_from_it(now):
    first, second = running_siblings(2)

    with held(lose(first, now.at_ms)) as commit:
        waiting = Running(lose(second, now.at_ms))
        wait_until_blocked(waiting)
        commit()

    assert waiting.result() == 1
    assert Suspect.objects.get().crash_count == 2


@racing
def test_a_crash_whose_first_one_is_rolled_back_counts_alone(now):
    first, second = running_siblings(2)

    with held(lose(first, now.at_ms)):
        waiting = Running(lose(second, now.at_ms))
        wait_until_blocked(waiting)

    assert waiting.result() == 1
    assert Suspect.objects.get().crash_count == 1


@racing
def test_a_crash_that_waits_for_a_release_counts_from_zero(now):
    [canary, *_] = in_quarantine(now)
    release(canary.fingerprint, canary=True)
    claim = admit_one("w1")

    with held(lambda: release(canary.fingerprint)) as commit:
        waiting = Running(lose(claim, now.at_ms))
        wait_until_blocked(waiting)
        commit()

    assert waiting.result() == 1
    assert (state(canary), Suspect.objects.get().crash_count) == (State.RETRYABLE, 1)
    assert not Quarantine.objects.exists()


@racing
def test_a_release_that_waits_for_the_crash_of_the_canary_frees_it_with_the_others(now):
    jobs = in_quarantine(now)
    release(jobs[0].fingerprint, canary=True)
    claim = admit_one("w1")

    with held(lose(claim, now.at_ms)) as commit:
        waiting = Running(lambda: release(jobs[0].fingerprint))
        wait_until_blocked(waiting)
        commit()

    assert waiting.result() == 3
    assert {state(job) for job in jobs} == {State.AVAILABLE}


@racing
def test_of_two_canaries_at_the_same_time_one_is_sent(now):
    jobs = in_quarantine(now)

    with held(lambda: release(jobs[0].fingerprint, canary=True)) as commit:
        waiting = Running(lambda: release(jobs[0].fingerprint, canary=True))
        wait_until_blocked(waiting)
        commit()

    assert waiting.result() == 0
    assert [state(job) for job in jobs] == [State.AVAILABLE, State.QUARANTINED, State.QUARANTINED]


@racing
def test_the_success_of_a_canary_lifts_the_quarantine_with_its_commit_and_not_before(now):
    canary, *others = in_quarantine(now)
    release(canary.fingerprint, canary=True)
    claim = admit_one("w1")

    with held(lambda: ack([(claim, SUCCESS)])) as commit:
        assert sweep_quarantine(500, "default") == 0
        with pytest.raises(Quarantined):
            sibling()
        commit()
    assert sweep_quarantine(500, "default") == 2

    assert {state(job) for job in others} == {State.AVAILABLE}


def churn(seed: int, contents: list[str], now: object) -> Callable[[], int]:
    """Everything that can happen to these contents, at random, on one connection; how many steps."""
    rng = Random(seed)

    def produce() -> None:
        with suppress(Quarantined):
            enqueue([EnvelopeFactory(queue=QUEUE, arguments={"value": rng.choice("abc")}) for _ in range(3)])

    def work() -> None:
        claims = Gate(f"{seed}-{rng.random()}", queues={QUEUE: 1}, lease_ms=LEASE).admit(rng.randint(1, 4))
        events = [rng.choice([Event.SUCCEED, Event.RETRY, None]) for _ in claims]
        for claim in (claim for claim, event in zip(claims, events, strict=True) if event is None):
            lose(claim, now.at_ms)()
        ended = [(claim, event) for claim, event in zip(claims, events, strict=True) if event]
        ack([(claim, Outcome(event=event, delay_ms=0, failure=BOOM)) for claim, event in ended])

    def free() -> None:
        fingerprint, canary = rng.choice(contents), rng.random() < 0.7
        retrying_locked("default", lambda: release(fingerprint, canary=canary))

    def run() -> int:
        steps = [produce, work, work, work, free, lambda: sweep_quarantine(5, "default"), reclaim]
        for _ in range(60):
            rng.choice(steps)()
        return 60

    return run


def test_whatever_happens_at_the_same_time_no_job_is_left_in_quarantine_without_one(now):
    jobs = enqueue([EnvelopeFactory(queue=QUEUE, arguments={"value": value}) for value in "abc"])
    contents = [job.fingerprint for job in jobs]

    assert together(*[churn(seed, contents, now) for seed in range(4)]) == [60] * 4
    while sweep_quarantine(500, "default"):
        pass

    in_force = dict(Quarantine.objects.values_list("fingerprint", "canary_job_id"))
    assert not Quarantine.objects.filter(is_lifted=True).exists()
    stuck = Job.objects.in_state(State.QUARANTINED).exclude(fingerprint__in=in_force)
    assert not stuck.exists()
    loose = Job.objects.filter(fingerprint__in=in_force, state__in=UNFINISHED)
    assert {job.pk for job in loose} <= set(in_force.values())
