"""A stalled or failing duty stops no other; duties are given back at once."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from django.db import DatabaseError, connection

from headgate_django.core.states import State
from headgate_django.duties.roster import SWEEPS, Sweep
from headgate_django.lifecycle.evict import evict
from headgate_django.lifecycle.reclaim import reclaim
from headgate_django.models import Duty, Job, Worker
from headgate_django.models.store import fetch
from headgate_django.worker import sweeper as module
from headgate_django.worker.sweeper import Sweeper
from tests.support.builders import in_state, running
from tests.support.faults import locked_file, read_only_server
from tests.support.locks import PATIENCE, held
from tests.support.processes import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
postgres_only = pytest.mark.skipif(
    os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="one lock on SQLite's file stalls every duty"
)
OFTEN = 0.05


class Stall:
    """Work that does not come back until it is let go."""

    def __init__(self) -> None:
        self.begun, self.let_go, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, limit: int, using: str) -> int:
        self.begun.set()
        assert self.let_go.wait(PATIENCE)
        self.ended.set()
        return 0


@pytest.fixture
def stall() -> Iterator[Stall]:
    stall = Stall()
    yield stall
    stall.let_go.set()


@contextmanager
def sweeping(*sweeps: Sweep, holder: str = "w1") -> Iterator[Sweeper]:
    sweeper = Sweeper(holder, "default", sweeps=sweeps, stall_seconds=0.1)
    sweeper.start()
    try:
        yield sweeper
    finally:
        sweeper.stop()


def counting(name: str, counted: list[str]) -> Sweep:
    def work(limit: int, using: str) -> int:
        counted.append(name)
        return 0

    return Sweep(name, OFTEN, work)


def performers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "headgate-duties"]


def delete_workers(limit: int, using: str) -> int:
    """Waits for whoever has locked one."""
    return Worker.objects.using(using).delete()[0]


def holders() -> dict[str, str]:
    return dict(Duty.objects.values_list("name", "holder"))


@postgres_only
def test_a_duty_that_waits_for_a_lock_does_not_stop_the_others(monkeypatch):
    monkeypatch.setattr(module, "LOCK_MS", 60_000)
    Worker.objects.beat("gone", hostname="h", pid=1, version="0", queues={}, status="running", capacity=1)
    lost, _ = running(lease_ms=1)
    old = in_state(State.COMPLETED, retention_ms=1)
    sweeps = (
        Sweep("delete workers", OFTEN, delete_workers),
        Sweep("reclaim", OFTEN, lambda limit, using: reclaim(limit=limit, using=using)),
        Sweep("evict", OFTEN, lambda limit, using: evict(limit=limit, using=using)),
    )

    with held(lambda: Worker.objects.select_for_update().get()) as commit, sweeping(*sweeps):
        wait_until(lambda: len(performers()) == 2, "the stalled thread is relieved")
        wait_until(lambda: not Job.objects.filter(pk=lost.pk, state=State.RUNNING), "reclaimed")
        wait_until(lambda: not Job.objects.filter(pk=old.pk), "evicted")
        assert Worker.objects.count() == 1
        commit()
        wait_until(lambda: Worker.objects.count() == 0, "the stalled duty ends")
        wait_until(lambda: len(performers()) == 1, "its thread has ended")


@postgres_only
def test_a_sweep_gives_up_a_lock_after_a_while(monkeypatch, caplog):
    monkeypatch.setattr(module, "LOCK_MS", 10)
    Worker.objects.beat("gone", hostname="h", pid=1, version="0", queues={}, status="running", capacity=1)

    sweep = Sweep("delete workers", OFTEN, delete_workers)
    with held(lambda: Worker.objects.select_for_update().get()), sweeping(sweep):
        wait_until(lambda: "cannot perform duty delete workers" in caplog.text, "given up")

    assert "55P03" in caplog.text


@postgres_only
def test_no_more_threads_are_started_than_there_are_duties_left(stall):
    performed: list[str] = []
    others = [Stall() for _ in range(2)]
    sweeps = [Sweep(f"stalled {number}", OFTEN, work) for number, work in enumerate([stall, *others])]

    with sweeping(*sweeps, counting("healthy", performed)):
        wait_until(lambda: all(one.begun.is_set() for one in [stall, *others]), "three are stalled")
        wait_until(lambda: len(performed) > 3, "the fourth is performed")
        assert len(performers()) == 4
        for one in [stall, *others]:
            one.let_go.set()
        wait_until(lambda: len(performers()) == 1, "one is enough again")


def test_a_stalled_duty_is_taken_by_another_worker_when_its_lease_has_expired(stall):
    performed: list[str] = []
    with sweeping(Sweep("shared", OFTEN, stall), holder="w1"):
        assert stall.begun.wait(PATIENCE)
        with sweeping(counting("shared", performed), holder="w2"):
            wait_until(lambda: len(performed) > 2, "another worker performs it")
            assert holders() == {"shared": "w2"}


def test_duties_are_given_back_at_the_end_although_one_is_stalled(stall):
    performed: list[str] = []
    sweeps = (Sweep("stalled", 60.0, stall), counting("healthy", performed))
    sweeper = Sweeper("w1", "default", sweeps=sweeps, stall_seconds=0.1)
    sweeper._agenda._due[sweeps[0]] = 0.0
    sweeper.start()
    assert stall.begun.wait(PATIENCE)
    assert holders()["stalled"] == "w1"

    sweeper.stop(timeout=PATIENCE)

    assert not stall.ended.is_set()
    assert set(holders().values()) == {""}


def test_what_a_stalled_thread_retakes_after_the_end_is_given_back_too(stall, monkeypatch):
    sweep = Sweep("stalled", OFTEN, stall)
    sweeper = Sweeper("w1", "default", sweeps=[sweep], stall_seconds=0.1)
    sweeper.start()
    assert stall.begun.wait(PATIENCE)
    sweeper.stop(timeout=PATIENCE)
    Duty.objects.update(holder="w1")  # as its statement that was on its way would do

    stall.let_go.set()

    wait_until(lambda: holders() == {"stalled": ""}, "given back again")
    wait_until(lambda: not performers(), "the thread has ended")


def test_a_worker_that_resigns_gives_its_duties_back_and_takes_none_again():
    performed: list[str] = []
    with sweeping(counting("healthy", performed)) as sweeper:
        wait_until(lambda: holders() == {"healthy": "w1"}, "held")

        sweeper.resign()

        wait_until(lambda: not performers(), "the thread has ended")
        wait_until(lambda: not sweeper._watcher.is_alive(), "nobody starts another")
        assert holders() == {"healthy": ""}


def test_a_sweep_that_fails_is_tried_again_later_and_later_and_stops_no_other(caplog):
    caplog.set_level(logging.INFO, "headgate_django.worker")
    tries: list[str] = []
    performed: list[str] = []

    def fails(limit: int, using: str) -> int:
        tries.append("failed")
        raise ZeroDivisionError

    with sweeping(Sweep("failing", 0.001, fails), counting("healthy", performed)):
        wait_until(lambda: len(tries) >= 3, "tried again")
        wait_until(lambda: len(performed) > 5, "the other goes on")

    # Without a pause between them there would be hundreds.
    assert len(tries) < len(performed) + 3
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "cannot perform duty failing; trying again with growing pauses"
    ]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_is_replaced(caplog):
    performed: list[str] = []

    def leaves(limit: int, using: str) -> int:
        raise SystemExit

    with sweeping(Sweep("leaving", 0.2, leaves), counting("healthy", performed)):
        wait_until(lambda: "has died" in caplog.text, "noticed")
        count = len(performed)
        wait_until(lambda: len(performed) > count + 3, "the other goes on")


@postgres_only
def test_the_duties_of_a_worker_need_one_connection():
    def backends() -> set[Any]:
        rows = fetch("default", "SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        return {pid for (pid,) in rows}

    wait_until(lambda: backends() == {connection.connection.info.backend_pid}, "others have left")
    seen: set[Any] = set()
    passed: Callable[[], bool] = lambda: Duty.objects.filter(name__in=["reclaim", "quarantine"]).count() == 2  # noqa: E731
    sweeper = Sweeper("w1", "default", sweeps=SWEEPS)
    sweeper.start()
    try:
        wait_until(lambda: seen.update(backends()) or passed(), "the frequent duties have been performed")
    finally:
        sweeper.stop()

    assert len(seen) == 2  # with this test's own


def test_an_outage_is_over_only_when_something_can_be_written_again(vendor):
    performed: list[str] = []
    sweep = replace(counting("reclaim", performed), after_renewals=True)
    sweeper = Sweeper("w1", "default", sweeps=[sweep])
    sweeper._outage = True

    with read_only_server() if vendor == "postgresql" else locked_file(), pytest.raises(DatabaseError):
        sweeper._pass(sweep, lambda: True)
    assert sweeper._pass(sweep, lambda: True) == module.RENEWAL_SECONDS
    assert performed == []

    assert sweeper._pass(sweep, lambda: True) == OFTEN
    assert performed == ["reclaim"]


def test_another_duty_that_goes_on_failing_lets_reclaim_wait_only_once():
    performed: list[str] = []
    sweep = replace(counting("reclaim", performed), after_renewals=True)
    other = counting("other", [])
    sweeper = Sweeper("w1", "default", sweeps=[sweep], after_outage=True)

    for _ in range(3):
        sweeper._note_failure(other, outage=True)
        assert sweeper._pass(sweep, lambda: True) == module.RENEWAL_SECONDS
        sweeper._note_failure(other, outage=True)
        assert sweeper._pass(sweep, lambda: True) == OFTEN

    assert performed == ["reclaim"] * 3


def test_an_outage_while_it_waits_lets_reclaim_wait_again():
    performed: list[str] = []
    sweep = replace(counting("reclaim", performed), after_renewals=True)
    sweeper = Sweeper("w1", "default", sweeps=[sweep], after_outage=True)
    assert sweeper._pass(sweep, lambda: True) == module.RENEWAL_SECONDS

    sweeper._note_failure(sweep, outage=True)

    assert sweeper._pass(sweep, lambda: True) == module.RENEWAL_SECONDS
    assert performed == []
