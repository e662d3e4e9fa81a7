"""Behind PgBouncer in transaction mode, where clients share two sessions and keep nothing of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headgate_django import enqueue_many
from headgate_django.control.redrive import redrive
from headgate_django.core.states import TERMINAL, State
from headgate_django.duties.roster import BATCH, SWEEPS, perform
from headgate_django.lifecycle.wakeup import Listener
from headgate_django.models import Job, Worker
from headgate_django.models.store import execute, fetch, is_pooled, limited
from headgate_django.worker.wakeup import Wakeup
from tests.sample import jobs
from tests.sample.models import Run
from tests.support import pgbouncer
from tests.support.backlog import Backlog, load
from tests.support.builders import in_state, running
from tests.support.connecting import connecting
from tests.support.processes import Process, terminate, wait_until, worker

pytestmark = [
    pytest.mark.process,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="SQLite has no pooler"),
    # At home a missing pooler is said and skipped; in CI it fails.
    pytest.mark.skipif(
        not (pgbouncer.PROGRAM or os.environ.get("CI")), reason="there is no pgbouncer on this machine"
    ),
]

WORKERS = 4


@pytest.fixture
def pooler() -> Iterator[Path]:
    with pgbouncer.pgbouncer() as folder:
        yield folder


@pytest.fixture
def pooled(pooler) -> Iterator[None]:
    """This test's own connection goes through the pooler; server-side cursors are left enabled."""
    with connecting(HOST=str(pooler), PORT=str(pgbouncer.PORT)):
        yield


def sessions() -> list[str]:
    """What the server's other sessions in this database do."""
    rows = fetch(
        "default",
        "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND backend_type = 'client backend'",
    )
    return [state for (state,) in rows]


def test_four_workers_share_two_sessions_and_finish_everything(pooler):
    lost, _ = running(lease_ms=1)  # reclaimed, and run
    evicted = in_state(State.COMPLETED, retention_ms=1)
    enqueue_many([jobs.recorded.envelope(f"n{number}") for number in range(250)])
    enqueue_many([jobs.flaky.envelope(1) for _ in range(50)])
    seen: set[Any] = set()
    most = 0

    def finished() -> bool:
        nonlocal most
        states = sessions()
        seen.update(states)
        most = max(most, len(states))
        return not Job.objects.exclude(state__in=TERMINAL).exists() and not Job.objects.filter(pk=evicted.pk)

    with ExitStack() as stack:
        address = {"HEADGATE_TEST_DATABASE_URL": pgbouncer.url(pooler)}
        workers: list[Process] = [
            stack.enter_context(worker("--threads", "5", "--poll-interval", "0.2", **address))
            for _ in range(WORKERS)
        ]
        wait_until(finished, "all jobs have ended")
        assert [terminate(process) for process in workers] == [0] * WORKERS

    assert most <= pgbouncer.POOL_SIZE
    assert "idle in transaction (aborted)" not in seen
    assert Job.objects.filter(state=State.COMPLETED).count() == 301
    assert Job.objects.get(pk=lost.pk).crash_attempt == 1
    assert Run.objects.filter(name__startswith="n").count() == 250
    for process in workers:
        assert "a pooler stands before the database" in process.output
        assert " WARNING " not in process.output
        assert " ERROR " not in process.output


def test_a_pooler_is_seen_and_a_direct_connection_is_none(pooler):
    assert not is_pooled("default")

    with connecting(HOST=str(pooler), PORT=str(pgbouncer.PORT)):
        assert is_pooled("default")


def test_a_worker_that_comes_to_a_pooler_and_leaves_it_says_so(pooler, caplog):
    caplog.set_level("INFO", "headgate_django.worker")
    waker = Wakeup(Listener("default", "w1"))
    waker.wait(0, for_work=True)
    assert waker.mode == "listen"

    with connecting(HOST=str(pooler), PORT=str(pgbouncer.PORT)):
        for _ in range(3):
            waker.wait(0, for_work=True)
        assert waker.mode == "poll"
        listening = fetch("default", "SELECT count(*) FROM pg_listening_channels()")
    waker.wait(0, for_work=True)

    assert waker.mode == "listen"
    assert listening == [(0,)]
    assert len(caplog.records) == 2
    waker.close()


def test_maintenance_goes_through_several_batches_on_changing_sessions(pooled):
    count = 2 * BATCH + 200
    load(
        Backlog(count=count, prefix="dead", state=State.CANCELLED, retention_ms=0),
        Backlog(count=count, prefix="old", state=State.COMPLETED, retention_ms=1),
        Backlog(count=count, prefix="lost", state=State.RUNNING, at_ms=0),
    )
    Worker.objects.beat("gone", hostname="h", pid=1, version="0", queues={}, status="running", capacity=1)
    Worker.objects.update(heartbeat_at_ms=1)
    execute("default", "UPDATE headgate_django_job SET lease_expires_at_ms = 1 WHERE state = 'running'")
    dead = Job.objects.filter(pk__startswith="dead")

    assert redrive(dead, actor=None).done == count
    with limited("default", lock_ms=3_000, statement_ms=30_000):
        handled = {sweep.name: perform(sweep, "w1", using="default") for sweep in SWEEPS}

    assert dead.filter(state=State.AVAILABLE).count() == count
    assert (handled["evict"], handled["reclaim"], handled["forget workers"]) == (count, count, 1)
    assert len(sessions()) < pgbouncer.POOL_SIZE
    assert fetch("default", "SHOW statement_timeout") == [("0",)]
