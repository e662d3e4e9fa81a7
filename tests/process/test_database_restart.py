"""The database goes away in the middle of a run, and comes back: the worker lives on, and no job pays for it.

The handlers of these tests touch no database. One that does fails while there is none, as its author decides.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from django.db import connection
from django.db.models import Max, Sum

from headgate_django import enqueue_many
from headgate_django.core.states import State
from headgate_django.models import Attempt, Job
from tests.sample import jobs
from tests.support.processes import Process, terminate, wait_until, worker
from tests.support.server import Server, own_server

pytestmark = [
    pytest.mark.process,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="SQLite has no server"),
]

JOBS = 400
OUTAGE_SECONDS = 5.0
PROCESSES = 2


@pytest.fixture
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


def complaints(process: Process) -> list[str]:
    return [line for line in process.lines if " WARNING " in line or " ERROR " in line]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_worker_survives_a_restart_of_the_server_and_all_jobs_finish_once(server, mode):
    enqueue_many([jobs.naps.envelope(0.1) for _ in range(JOBS)])
    with worker("--processes", str(PROCESSES), "--threads", "4", HEADGATE_TEST_DATABASE_URL=server.url) as process:
        children = process.children()
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() >= 20, "in the middle of the run")
        connection.close()
        server.stop(mode)
        process.wait_for_line("cannot")
        time.sleep(OUTAGE_SECONDS)  # the outage itself: several tries of the worker fall into it
        server.start()
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() == JOBS, "all finished")
        jobs.naps.enqueue(0)
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() == JOBS + 1, "it still hears of work")
        assert process.children() == children
        assert terminate(process) == 0, process.output

    totals = Job.objects.aggregate(Sum("attempt"), Sum("crash_attempt"), Sum("interruptions"), Max("fence"))
    assert totals == {"attempt__sum": 0, "crash_attempt__sum": 0, "interruptions__sum": 0, "fence__max": 1}
    assert Attempt.objects.count() == 0
    assert "Traceback" not in process.output
    assert len(complaints(process)) <= 3 * OUTAGE_SECONDS * PROCESSES, process.output
    assert "answers again" in process.output


def test_an_outage_that_outlasts_the_leases_costs_no_run(server):
    lease, rest = 4.0, 18.0
    enqueue_many([jobs.naps.envelope(rest) for _ in range(4)])
    options = ("--processes", str(PROCESSES), "--threads", "2", "--lease", str(lease))
    with worker(*options, HEADGATE_TEST_DATABASE_URL=server.url) as process:
        wait_until(lambda: Job.objects.filter(state=State.RUNNING).count() == 4, "all run")
        connection.close()
        server.stop("fast")
        process.wait_for_line("cannot")
        time.sleep(1.5 * lease)  # the outage itself: every lease expires
        server.start()
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() == 4, "all finished")
        assert terminate(process) == 0, process.output

    assert set(Job.objects.values_list("crash_attempt", "attempt", "fence")) == {(0, 0, 1)}
    assert Attempt.objects.count() == 0


def test_a_worker_without_a_database_stops_when_it_is_told_to(server):
    with worker("--threads", "2", HEADGATE_TEST_DATABASE_URL=server.url) as process:
        connection.close()
        server.stop()
        process.wait_for_line("cannot")
        assert terminate(process) == 0, process.output
        server.start()

    assert "Traceback" not in process.output
