"""Is the queue well? Each check fails when it should, and only then."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test.utils import CaptureQueriesContext

from headgate_django.control import health as module
from headgate_django.control.health import Level, Thresholds, examine
from headgate_django.core.commands import Status
from headgate_django.core.states import State
from headgate_django.duties import lease
from headgate_django.duties.roster import SWEEPS
from headgate_django.models import Partition, Queue, Worker
from tests.support.backlog import Backlog, load
from tests.support.builders import in_state, queued
from tests.support.plans import watched

pytestmark = pytest.mark.django_db


def beat(worker_id="w1", *queues, **columns):
    columns = {"hostname": "h", "pid": 7, "version": "1", "capacity": 4, "wakeup": "listen", **columns}
    Worker.objects.beat(worker_id, queues=dict.fromkeys(queues or ("*",), 1), **columns)


def levels(**thresholds):
    health = examine(Thresholds(**thresholds))
    assert health.healthy == all(check.level != Level.FAILED for check in health.checks)
    return {check.name: check.level for check in health.checks if check.level != Level.OK}


def check(name, **thresholds):
    return next(one for one in examine(Thresholds(**thresholds)).checks if one.name == name)


def test_a_queue_that_is_served_is_well(now):
    beat()
    queued()

    assert levels(max_dead=0) == {}


READING = {"SELECT", "WITH", "SAVEPOINT", "RELEASE", "ROLLBACK"}


def test_it_changes_nothing(now):
    beat()
    queued()

    with CaptureQueriesContext(connection) as queries:
        examine(Thresholds(max_dead=0))

    assert {query["sql"].split()[0] for query in queries.captured_queries} <= READING


def test_without_a_worker_it_is_not_well(now):
    assert levels() == {"workers": Level.FAILED}
    assert levels(min_workers=0) == {}


def test_a_silent_worker_is_not_counted_and_is_a_warning(now):
    beat("w1")
    now.advance(minutes=2)
    beat("w2")

    assert check("workers", min_workers=2).value == 1
    assert levels() == {"silent workers": Level.WARNING}


@pytest.mark.parametrize(("live", "level"), [(1, Level.FAILED), (2, Level.OK), (3, Level.OK)])
def test_as_many_workers_are_wanted_as_one_says(now, live, level):
    for number in range(live):
        beat(f"w{number}")

    assert check("workers", min_workers=2).level == level


def test_waiting_jobs_in_a_queue_that_nobody_serves_are_named(now):
    beat("w1", "high")
    beat("w2", "low")
    for queue in ("default", "hihg", "low"):
        queued(queue=queue)

    found = check("queues")

    assert (found.level, found.value) == (Level.FAILED, 2)
    assert found.detail == "no live worker admits from 'default', 'hihg'"


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.RUNNING])
def test_a_worker_that_admits_nothing_serves_nothing(now, status):
    beat(status=status)
    queued()

    assert levels() == {"queues": Level.FAILED}


def test_a_paused_queue_needs_nobody_and_waits_for_nothing(now):
    beat("w1", "other")
    queued(queue="mail")
    Queue.objects.create(name="mail", paused=True)
    now.advance(seconds=50)
    beat("w1", "other")

    assert levels(max_wait_ms=1_000) == {}


def test_due_jobs_wait_although_no_worker_makes_them_available(now):
    in_state(State.RETRYABLE, queue="mail")
    in_state(State.SCHEDULED, queue="paused", delay_ms=1_000)
    Queue.objects.create(name="paused", paused=True)
    now.advance(minutes=2)
    beat(status="quiet")

    assert levels(max_wait_ms=59_000) == {"queues": Level.FAILED, "waits": Level.FAILED}
    assert check("queues").detail == "no live worker admits from 'mail'"
    assert check("waits", max_wait_ms=59_000).detail == "longer than 59 s: 'mail' 60.0 s"


def test_a_queue_without_available_jobs_needs_nobody(now):
    beat("w1", "other")
    for state in (State.SCHEDULED, State.RUNNING, State.ARCHIVED):
        in_state(state, queue="mail")

    assert levels() == {}


def test_a_job_that_waits_longer_than_the_threshold_is_found_in_its_queue(now):
    beat()
    queued(queue="mail")
    now.advance(seconds=10)
    queued(queue="other")
    before = check("waits", max_wait_ms=10_000)

    now.advance(milliseconds=1)
    after = check("waits", max_wait_ms=10_000)

    assert (before.level, before.detail) == (Level.OK, "the oldest job that could run waits 10.0 s")
    assert (after.level, after.value, after.limit) == (Level.FAILED, 10.001, 10)
    assert after.detail == "longer than 10 s: 'mail' 10.0 s"


def test_a_paused_partition_waits_for_its_operator(now):
    beat()
    queued(queue="mail", partition_key="acme")
    Partition.objects.create(queue="mail", key="acme", paused=True)
    now.advance(seconds=50)

    assert check("waits", max_wait_ms=1_000).level == Level.OK


def test_waits_and_deaths_are_looked_at_only_when_asked_for(now):
    names = {one.name for one in examine(Thresholds(max_wait_ms=None, max_dead=None)).checks}

    assert not names & {"waits", "dead letters"}


def test_the_dead_letters_of_the_last_hour_are_counted_to_the_threshold_and_no_further(now):
    in_state(State.ARCHIVED)
    now.advance(minutes=61)
    load(Backlog(count=5_000, state=State.ARCHIVED, at_ms=now.at_ms, payloads=False))

    with watched() as watch:
        found = check("dead letters", max_dead=3)

    assert (found.level, found.detail) == (Level.FAILED, "more than 3 in the last hour, at most 3 wanted")
    assert check("dead letters", max_dead=5_000).level == Level.OK
    assert watch.one("finalized_at_ms").rows <= 4
    assert "headgate_job_terminal" in watch.one("finalized_at_ms").indexes


def rest(now, seconds):
    """Workers that go on beating while so much time passes."""
    now.advance(seconds=seconds)
    Worker.objects.update(heartbeat_at_ms=now.at_ms)


def test_a_duty_that_nobody_has_ever_held_is_missed_a_minute_after_the_first_worker_began(now):
    beat()
    rest(now, 60)
    before = levels()

    rest(now, 1)

    assert (before, levels()) == ({}, {"duties": Level.FAILED})


def test_a_duty_that_is_held_is_well_and_one_that_lapsed_a_minute_ago_is_not(now):
    beat()
    rest(now, 600)
    lease.acquire(module.RECLAIM, "w1", 5_000, using="default")
    found = [levels()]
    for seconds in (65, 1):
        rest(now, seconds)
        found.append(levels())

    assert found == [{}, {}, {"duties": Level.FAILED}]


def test_a_duty_that_was_just_given_back_is_not_missed(now):
    beat()
    rest(now, 600)
    lease.acquire(module.RECLAIM, "w1", 5_000, using="default")
    lease.release("w1", using="default")

    assert levels() == {}
    assert lease.acquire(module.RECLAIM, "w2", 5_000, using="default")


def test_without_workers_no_duty_is_missed(now):
    lease.acquire(module.RECLAIM, "w1", 5_000, using="default")
    now.advance(days=1)

    assert check("duties").level == Level.OK


def test_the_duty_that_is_looked_at_exists():
    assert module.RECLAIM in {sweep.name for sweep in SWEEPS}


def test_stuck_threads_are_counted_on_live_workers(now):
    beat("dead", stuck=9)
    now.advance(minutes=2)
    beat("w1", stuck=2)
    beat("w2")

    found = check("stuck threads")

    assert (found.level, found.value, found.detail) == (Level.FAILED, 2, "2 on 'w1'")
    assert check("stuck threads", max_stuck=2).level == Level.OK


def test_a_worker_that_only_polls_is_a_warning_where_it_could_listen(now, vendor):
    beat(wakeup="poll")

    assert levels() == ({"wake-up": Level.WARNING} if vendor == "postgresql" else {})
    assert examine(Thresholds()).healthy


def test_with_a_migration_missing_nothing_else_is_looked_at(now):
    MigrationRecorder(connection).record_unapplied("headgate_django", "0002_policies")

    health = examine(Thresholds())

    assert [(one.name, one.level) for one in health.checks] == [
        ("database", Level.OK),
        ("migrations", Level.FAILED),
    ]
    assert "'0002_policies'" in health.checks[1].detail
    assert health.reachable


def test_other_apps_migrations_are_their_own_matter(now):
    beat()
    MigrationRecorder(connection).record_unapplied("auth", "0001_initial")

    assert levels() == {}


def test_a_deep_queue_costs_no_more_than_a_shallow_one(now):
    beat()
    load(Backlog(count=20_000, queue="q", queues=20, partitions=5, at_ms=now.at_ms, payloads=False))
    load(Backlog(count=20_000, prefix="d", state=State.ARCHIVED, at_ms=now.at_ms, payloads=False))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")

    with watched() as watch:
        examine(Thresholds(max_dead=100))

    jobs = [statement for statement in watch.statements if "headgate_django_job" in statement.sql]
    assert jobs
    assert all(statement.indexes for statement in jobs)
    assert sum(statement.rows for statement in jobs) < 3_000
    assert max(statement.touched for statement in jobs) < 5_000
