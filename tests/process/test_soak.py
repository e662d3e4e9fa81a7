"""Nothing grows: the short form of ``benchmarks.soak``, which goes on for much longer.

Memory is bounded, which a loaded machine does not change: a kilobyte left behind by each job or poll shows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headgate_django import enqueue_many
from headgate_django.core.states import State
from headgate_django.models import Job, Worker
from tests.sample import jobs
from tests.support import census
from tests.support.processes import Process, environment, terminate, wait_until

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

THREADS = 4
WARM_UP, COUNTED = 1_000, 3_000
LIMIT_MB = 3.0


@contextmanager
def restless(debug: bool) -> Iterator[Process]:
    """A worker that hardly pauses between two polls."""
    command = [sys.executable, "-m", "benchmarks.restless", "--threads", str(THREADS), "--lease", "1"]
    variables = {
        "DJANGO_SETTINGS_MODULE": "tests.support.named_settings",
        "HEADGATE_TEST_DEBUG": str(int(debug)),
        "HEADGATE_TEST_CONN_MAX_AGE": "600",
    }
    process = Process(command, environment(**variables))
    try:
        process.wait_for_line(" ready: ")
        yield process
    finally:
        process.end()


def grown(pids: list[int], count: Callable[[], int], start: int) -> dict[int, float]:
    """How many MB each process has grown while ``count()`` grew from ``start``, after a warm-up."""
    wait_until(lambda: count() >= start + WARM_UP, "warm")
    before = {pid: census.memory(pid) for pid in pids}
    wait_until(lambda: count() >= start + WARM_UP + COUNTED, "at the end")
    return {pid: census.memory(pid) - before[pid] for pid in pids}


def completed() -> int:
    return Job.objects.filter(state=State.COMPLETED).count()


def empty_polls() -> int:
    return Worker.objects.values_list("empty_polls", flat=True).first() or 0


def test_neither_jobs_nor_idle_polls_make_a_worker_grow(vendor):
    debug = vendor == "postgresql"  # with and without, each on one of the two: it takes its time
    with restless(debug) as process:
        pids = [process.pid, *process.children()]
        for _ in range(0, WARM_UP + COUNTED, 1_000):
            enqueue_many([jobs.recorded.envelope("soak") for _ in range(1_000)])
        by_jobs = grown(pids, completed, 0)
        by_polls = grown(pids, empty_polls, empty_polls())
        counted = census.connections(pids)
        assert terminate(process) == 0, process.output

    assert max(by_jobs.values()) < LIMIT_MB
    assert max(by_polls.values()) < LIMIT_MB
    assert counted[pids[0]] == 0
    assert 0 < counted[pids[1]] <= THREADS + 2
