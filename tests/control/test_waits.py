"""The longest wait in a queue: exact however deep it is, pauses aside."""

from __future__ import annotations

from random import Random

import pytest
from django.db import connection

from headgate_django.control import waits as module
from headgate_django.control.waits import Wait, longest_waits
from headgate_django.core.states import Event, State
from headgate_django.gate.due import make_due_available
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.models import Job, Partition, RateClass
from tests.support.backlog import Backlog, load
from tests.support.builders import EnvelopeFactory, in_state, queued
from tests.support.plans import watched

pytestmark = pytest.mark.django_db


def wait_in(queue, now):
    return longest_waits([queue], now.at_ms, using="default").get(queue)


def test_a_queue_without_available_jobs_waits_for_nothing(now):
    in_state(State.SCHEDULED, queue="mail")
    in_state(State.RUNNING, queue="mail")

    assert wait_in("mail", now) is None


def test_a_due_job_waits_before_a_gate_has_made_it_available(now):
    queued(queue="mail")
    now.advance(seconds=1)
    queued(queue="mail", delay_ms=1)
    in_state(State.SCHEDULED, queue="other", delay_ms=2_000)
    now.advance(seconds=5)
    found = longest_waits(["mail", "other"], now.at_ms, using="default")

    assert found == {"mail": Wait(6_000), "other": Wait(3_000)}


def test_what_an_operator_paused_does_not_count_when_it_is_due_either(now):
    queued(queue="mail", partition_key="paused", delay_ms=1)
    queued(queue="mail", rate_class="paused", delay_ms=1)
    Partition.objects.create(queue="mail", key="paused", paused=True)
    RateClass.objects.create(name="paused", paused=True)
    now.advance(seconds=5)

    assert wait_in("mail", now) is None


def test_many_due_jobs_cost_no_more_than_are_looked_at(now, monkeypatch):
    monkeypatch.setattr(module, "MAX_DUE", 100)
    load(Backlog(count=10_000, queue="mail", state=State.RETRYABLE, at_ms=now.at_ms, payloads=False))
    load(Backlog(count=10_000, prefix="done", state=State.COMPLETED, at_ms=now.at_ms, payloads=False))
    now.advance(seconds=60)

    with watched() as watch:
        found = wait_in("mail", now)

    assert found == Wait(60_000, more=True)
    probe = watch.one("scheduled_at_ms <=")
    assert "headgate_job_due" in probe.indexes
    assert probe.rows <= 100


def test_a_job_waits_since_it_could_run_and_not_since_it_was_enqueued(now):
    job = queued(queue="mail", delay_ms=10_000)
    now.advance(seconds=13)

    make_due_available(now.at_ms, "default")

    assert Job.objects.get(pk=job.pk).state == State.AVAILABLE
    assert wait_in("mail", now) == Wait(3_000)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_longest_over_all_streams_and_priorities(now, seed):
    rng = Random(seed)
    for _ in range(40):
        enqueue(
            [
                EnvelopeFactory(
                    queue="mail",
                    partition_key=rng.choice(["", "a", "b", "\N{SNOWMAN}"]),
                    rate_class=rng.choice(["", "api"]),
                    sticky_worker=rng.choice(["", "w", "w1"]),
                    priority=rng.randint(-2, 2),
                )
            ]
        )
        now.advance(seconds=rng.random())
    first, second = Job.objects.order_by("scheduled_at_ms")[:2]
    found = [wait_in("mail", now)]

    first.transition(Event.CANCEL, now_ms=now.at_ms)
    found.append(wait_in("mail", now))

    assert found == [Wait(now.at_ms - job.scheduled_at_ms) for job in (first, second)]


def test_what_an_operator_paused_does_not_count(now):
    queued(queue="mail", partition_key="paused")
    queued(queue="mail", rate_class="paused")
    now.advance(seconds=5)
    queued(queue="mail", partition_key="open", rate_class="open")
    now.advance(seconds=2)
    Partition.objects.create(queue="mail", key="paused", paused=True)
    Partition.objects.create(queue="other", key="open", paused=True)
    RateClass.objects.create(name="paused", paused=True)

    assert wait_in("mail", now) == Wait(2_000)


def test_a_low_priority_behind_a_deep_backlog_is_seen_at_the_price_of_a_few_rows(now):
    load(Backlog(count=30_000, queue="mail", partitions=3, at_ms=now.at_ms, priority=5, payloads=False))
    load(Backlog(count=1, prefix="low", queue="mail", partition="1", at_ms=now.at_ms - 60_000, payloads=False))
    now.advance(seconds=60)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")

    with watched() as watch:
        found = wait_in("mail", now)

    assert found == Wait(120_000)
    probes = [statement for statement in watch.statements if "headgate_django_job" in statement.sql]
    aside = [probe.plan for probe in probes if not probe.indexes & {"headgate_job_ready", "headgate_job_due"}]
    assert aside == []
    assert sum(statement.rows for statement in probes) <= 100
    assert sum(statement.touched for statement in probes) < 2_000


def test_it_says_when_not_all_was_looked_at(now, monkeypatch):
    monkeypatch.setattr(module, "MAX_GROUPS", 10)
    load(Backlog(count=40, queue="mail", partitions=20, at_ms=now.at_ms, payloads=False))

    assert wait_in("mail", now) == Wait(0, more=True)
