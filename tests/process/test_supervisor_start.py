"""The start of a worker: what an import does to it, what it was started with, and what is not there yet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from django.db import connection

from headgate_django.core.states import State
from headgate_django.models import Attempt, Job
from headgate_django.worker.channel import Channel
from headgate_django.worker.supervisor.child import Child
from headgate_django.worker.supervisor.slot import Slot
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import ROOT, environment, terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]


def is_completed(job: Job) -> bool:
    return Job.objects.filter(pk=job.pk, state=State.COMPLETED).exists()


def test_a_jobs_module_that_takes_signals_for_itself_keeps_no_death_and_no_order_from_the_supervisor():
    job = jobs.alone.enqueue("sleep", 2)
    with worker("--lease", "300", HEADGATE_TEST_TAKES_SIGNALS="1") as process:
        wait_until(lambda: Run.objects.count() == 1, "entered")
        [child] = process.children()
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: is_completed(job), "run again")
        assert terminate(process) == 0, process.output


def test_a_jobs_module_that_takes_signals_for_itself_keeps_no_order_from_a_process_alone():
    with worker("--processes", "0", HEADGATE_TEST_TAKES_SIGNALS="1") as process:
        assert terminate(process) == 0, process.output


def test_a_database_that_is_away_at_the_start_is_waited_for_beyond_the_start_timeout(vendor, tmp_path):
    if vendor != "sqlite":
        pytest.skip("a file comes back more simply than a server")
    path = tmp_path / "away.sqlite3"
    path.symlink_to(tmp_path / "nowhere" / "at all")
    with worker("--start-timeout", "2", ready=False, HEADGATE_TEST_DB_NAME=str(path)) as process:
        process.wait_for_line("cannot enter the database")
        children = process.children()
        time.sleep(5)  # the outage itself
        path.unlink()
        path.symlink_to(connection.settings_dict["NAME"])
        process.wait_for_line("ready")
        assert process.children() == children
        assert terminate(process) == 0, process.output

    assert "nowhere" not in process.output


@pytest.mark.parametrize("entering", [True, False], ids=["kept waiting by the database", "not so far"])
def test_a_process_that_was_killed_at_its_start_speaks_against_itself_only_if_it_was_not_waiting(entering):
    slot = Slot(1)
    for _ in range(3):
        ours, theirs = Channel.pair()
        child = Child(1, "w1/1-abc", ours, entering=entering, because="was not ready in time")
        slot.replace_after(child)
        ours.close()
        theirs.close()

    assert slot.never_ready == (0 if entering else 3)


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"], ids=["no errors", "nothing at all"])
def test_a_worker_that_was_started_with_closed_streams_works_and_keeps_what_jobs_print(closed):
    enqueued = [jobs.ok.enqueue(), jobs.alone.enqueue("talk")]
    command = f"exec {sys.executable} -m django headgate_worker --lease 300 {closed}"
    process = subprocess.Popen(
        ["sh", "-c", command],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: is_completed(enqueued[0]), "completed")
        wait_until(lambda: Attempt.objects.exists(), "ended")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()

    assert "written at the end" in Attempt.objects.get().logs
