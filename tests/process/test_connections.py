"""How many connections one process of a worker has: no more than its threads, its runtime and its duties need."""

from __future__ import annotations

import itertools

import pytest
from django.db import connection

from headgate_django import enqueue_many
from headgate_django.core.states import State
from headgate_django.models import Job
from tests.sample import jobs
from tests.sample.models import Run
from tests.support import census
from tests.support.processes import Process, terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

THREADS = 4
ALLOWED = THREADS + 2
JOBS = 160
SETTINGS = "tests.support.named_settings"
LOOKS = 5
"""A session that its client has closed is listed for a moment longer. What is seen in so many looks is there."""


def envelopes(wave: str) -> list:
    sync = [jobs.once.envelope(f"{wave} {number}", 0.05) for number in range(JOBS)]
    asynchronous = [jobs.once_async.envelope(f"{wave} {number}", 0.05) for number in range(JOBS)]
    return {
        "sync": sync,
        "async": asynchronous,
        "mixed": [one for pair in zip(sync, asynchronous, strict=True) for one in pair],
    }[wave]


def counts_until_all_finished(pid: int) -> list[int]:
    """Of each look at the process."""
    counts = []

    def finished() -> bool:
        counts.append(census.connections([pid])[pid])
        return not Job.objects.exclude(state=State.COMPLETED).exists()

    wait_until(finished, "all finished")
    return counts


def most(counts: list[int]) -> int:
    """The most that were there in ``LOOKS`` looks in a row."""
    return max(min(counts[start : start + LOOKS]) for start in range(max(1, len(counts) - LOOKS + 1)))


def only_child(process: Process) -> int:
    [pid] = process.children()
    return pid


@pytest.mark.parametrize("age", ["0", "600"])
def test_a_process_has_no_more_connections_than_threads_and_two(age):
    seen = {}
    with worker(
        "--threads",
        str(THREADS),
        DJANGO_SETTINGS_MODULE=SETTINGS,
        HEADGATE_TEST_CONN_MAX_AGE=age,
    ) as process:
        pid = only_child(process)
        for wave in ("sync", "async", "mixed"):  # what the threads have kept must make room for the loop
            enqueue_many(envelopes(wave))
            seen[wave] = counts_until_all_finished(pid)
        assert census.connections([process.pid]) == {process.pid: 0}
        assert terminate(process) == 0, process.output

    assert all(most(counts) <= ALLOWED for counts in seen.values()), {w: most(c) for w, c in seen.items()}
    assert max(itertools.chain(*seen.values())) > 2, "the handlers' connections were seen"
    assert Run.objects.filter(finished=True).count() == 4 * JOBS
    assert Job.objects.filter(attempt__gt=0).count() == 0


def sessions_of_others() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return cursor.fetchone()[0]


@pytest.mark.parametrize("age", ["0", "600"])
def test_with_its_end_the_last_connection_is_gone(age, vendor):
    if vendor != "postgresql":
        pytest.skip("the kernel closes the files of a process that has ended")
    enqueue_many(envelopes("mixed"))
    with worker(
        "--threads", str(THREADS), DJANGO_SETTINGS_MODULE=SETTINGS, HEADGATE_TEST_CONN_MAX_AGE=age
    ) as process:
        counts_until_all_finished(only_child(process))
        assert terminate(process) == 0, process.output

    wait_until(lambda: sessions_of_others() == 0, "none is left")
