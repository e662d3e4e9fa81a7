"""The quarantine sweep walks over all jobs in windows, and finds the waiting siblings of poison pills."""

from __future__ import annotations

import os
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from headgate_django.core.states import STORED, WAITING, State
from headgate_django.duties import quarantine as duty
from headgate_django.duties.quarantine import forget_old_suspects, sweep_quarantine, sweep_siblings
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.cancel import cancel
from headgate_django.lifecycle.release import release
from headgate_django.models import Job, Quarantine, Suspect
from headgate_django.signals import job_died
from tests.support.backlog import Backlog, load
from tests.support.builders import in_state
from tests.support.locks import Running, held, wait_until_blocked
from tests.support.plans import watched
from tests.support.poison import in_quarantine, sibling, state

POSTGRES = os.environ.get("HEADGATE_TEST_DB") == "postgres"
racing = pytest.mark.skipif(not POSTGRES, reason="SQLite has one writer: there is nothing to race")
committing = pytest.mark.django_db(transaction=True)

POISON = {"value": "poison"}


def poison(job: Job, **columns: Any) -> Quarantine:
    columns = {"kind": job.kind, "reason": "test", "created_at_ms": 1} | columns
    return Quarantine.objects.update_or_create(fingerprint=job.fingerprint, defaults=columns)[0]


def sweep(limit: int = 500) -> int:
    return sweep_quarantine(limit, "default")


def backlog(count: int, fingerprint: str = "", **columns: Any) -> list[str]:
    """Available jobs with ids in order, of one content when a fingerprint is given; their ids."""
    load(Backlog(count=count, payloads=False, **columns))
    jobs = Job.objects.filter(pk__startswith=columns.get("prefix", "b"))
    if fingerprint:
        jobs.update(fingerprint=fingerprint)
    return list(jobs.order_by("pk").values_list("pk", flat=True))


@pytest.mark.parametrize("origin", sorted(STORED))
def test_waiting_siblings_are_taken_out_and_no_others(now, origin):
    job, other = in_state(origin, arguments=POISON), in_state(origin)
    poison(job, is_swept=False)

    assert sweep() == (origin in WAITING)

    assert state(job) == (State.QUARANTINED if origin in WAITING else origin)
    assert state(other) == origin


def test_what_is_taken_out_has_ended_and_is_announced(now, django_capture_on_commit_callbacks):
    told = []

    def receiver(job_ids, state, **facts):
        told.append((job_ids, state))

    job = sibling()
    poison(job)
    job_died.connect(receiver)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            sweep()
    finally:
        job_died.disconnect(receiver)

    assert told == [([job.pk], State.QUARANTINED)]
    assert Job.objects.get(pk=job.pk).finalized_at_ms == now.at_ms


def test_the_walk_goes_on_where_it_stopped_and_ends_at_the_last_job(now, monkeypatch):
    monkeypatch.setattr(duty, "WINDOW", 10)
    ids = backlog(25, fingerprint="f" * 32)
    poison(Job.objects.get(pk=ids[0]))

    moved, positions = [], []
    for _ in range(4):
        moved.append(sweep_siblings(500, "default"))
        row = Quarantine.objects.get()
        positions.append((row.swept_to, row.is_swept))

    assert moved == [10, 10, 5, None]
    assert positions == [(ids[9], False), (ids[19], False), (ids[19], True), (ids[19], True)]


def test_no_more_than_the_limit_are_moved_and_none_is_left_out(now):
    ids = backlog(25, fingerprint="f" * 32)
    poison(Job.objects.get(pk=ids[0]))

    assert [sweep(10), sweep(10), sweep(10), sweep(10)] == [10, 10, 5, 0]

    assert set(Job.objects.values_list("state", flat=True)) == {State.QUARANTINED}


def test_new_content_does_not_hold_up_old_content(now, monkeypatch):
    monkeypatch.setattr(duty, "WINDOW", 10)
    ids = backlog(30)
    old = poison(Job.objects.get(pk=ids[29]))

    for number in range(3):
        poison(Job.objects.get(pk=ids[number]))  # another one before each step
        sweep_siblings(500, "default")

    old.refresh_from_db()
    assert (state(Job(pk=ids[29])), old.swept_to) == (State.QUARANTINED, ids[29])


def test_many_contents_are_looked_for_in_one_walk(now):
    ids = backlog(30)
    for job in Job.objects.filter(pk__in=ids[::3]):
        poison(job)

    assert sweep_siblings(500, "default") == 10

    assert set(Quarantine.objects.values_list("is_swept", flat=True)) == {True}
    assert {state(Job(pk=job_id)) for job_id in ids[::3]} == {State.QUARANTINED}


def test_more_contents_than_one_walk_takes_are_looked_for_in_the_next(now, monkeypatch):
    monkeypatch.setattr(duty, "GROUP", 4)
    ids = backlog(10)
    for job in Job.objects.all():
        poison(job)

    assert sweep() == 10

    assert {state(Job(pk=job_id)) for job_id in ids} == {State.QUARANTINED}
    assert not Quarantine.objects.filter(is_swept=False).exists()


def test_a_pass_with_nothing_to_do_is_one_statement(now):
    poison(sibling(), is_swept=True)

    with CaptureQueriesContext(connection) as queries:
        assert sweep() == 0

    assert len(queries) == 1


@pytest.mark.parametrize("statistics", ["none", "fresh", "stale"])
def test_a_window_reads_along_the_primary_key_and_no_further_than_its_end(now, monkeypatch, statistics):
    monkeypatch.setattr(duty, "WINDOW", 500)
    if POSTGRES:  # without the pages that the transactions of other tests left behind
        run("TRUNCATE headgate_django_job CASCADE")
    if statistics == "stale":
        run("ANALYZE")
    ids = backlog(20_000)
    if statistics == "fresh":
        run("ANALYZE")
    poison(Job.objects.get(pk=ids[-1]), swept_to=ids[10_000])

    with watched() as watch:
        assert sweep_siblings(500, "default") == 0

    window = watch.one("WITH seen AS")
    key = "headgate_django_job_pkey" if POSTGRES else "sqlite_autoindex_headgate_django_job_1"
    assert key in window.indexes, window.plan
    assert "headgate_django_job" not in window.scanned, window.plan
    assert window.rows <= 500 * 2
    assert window.touched <= (1_000 if POSTGRES else 500 * 60)


def run(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def test_suspects_are_forgotten_after_seven_days_but_not_while_they_are_quarantined(now):
    [job, *_] = in_quarantine(now)
    old = now.at_ms - duty.FORGET_MS - 1
    Suspect.objects.create(fingerprint=job.fingerprint, crash_count=3, seen_at_ms=old)
    for number in range(3):
        Suspect.objects.create(fingerprint=f"old{number}", crash_count=1, seen_at_ms=old)
    Suspect.objects.create(fingerprint="lately", crash_count=1, seen_at_ms=old + 1)

    assert [forget_old_suspects(2, "default") for _ in range(3)] == [2, 1, 0]

    assert set(Suspect.objects.values_list("fingerprint", flat=True)) == {job.fingerprint, "lately"}


def test_a_canary_that_runs_again_since_it_was_looked_at_stays_the_canary(now):
    row = Quarantine(fingerprint="f", reason="test", canary_job_id="mine")

    duty._close(row, State.AVAILABLE)

    assert (row.canary_job_id, row.reason, row.is_lifted) == ("mine", "test", False)


@racing
@committing
def test_a_job_whose_enqueue_commits_after_the_sweep_has_passed_is_caught_by_the_gate(now):
    job = sibling()
    late = []

    with held(lambda: late.append(sibling())) as commit:  # was not refused: there was no quarantine yet
        poison(job)
        assert sweep() == 1
        assert Quarantine.objects.get().is_swept
        commit()

    assert state(late[0]) == State.AVAILABLE
    assert Gate("w1", queues={"builders": 1}).admit(10) == []
    assert state(late[0]) == State.QUARANTINED


@racing
@committing
def test_the_sweep_waits_for_nobody(now):
    locked, free = sibling(), sibling()
    poison(free)

    with held(lambda: cancel(Job.objects.filter(pk=locked.pk))) as commit:
        assert sweep() == 1
        commit()

    assert (state(locked), state(free)) == (State.CANCELLED, State.QUARANTINED)


@racing
@committing
def test_while_content_is_being_released_the_sweep_leaves_its_jobs_alone(now):
    job = sibling()
    poison(job)

    with held(lambda: release(job.fingerprint)) as commit:
        assert sweep() == 0
        commit()

    assert state(job) == State.AVAILABLE


@racing
@committing
def test_a_release_frees_what_the_sweep_has_just_taken_out(now):
    job = sibling()
    poison(job)

    with held(sweep) as commit:
        releasing = Running(lambda: release(job.fingerprint))
        wait_until_blocked(releasing)
        commit()

    assert releasing.result() == 1
    assert state(job) == State.AVAILABLE


@racing
@committing
def test_a_canary_is_closed_when_its_end_has_committed_and_not_before(now):
    canary, *others = in_quarantine(now)
    release(canary.fingerprint, canary=True)

    with held(lambda: cancel(Job.objects.filter(pk=canary.pk))) as commit:
        assert sweep() == 0
        commit()
    assert sweep() == 1

    assert {state(job) for job in others} == {State.QUARANTINED}
