"""Signals at a bad moment, or far too many of them."""

from __future__ import annotations

import os
import signal
import time

import pytest

from headgate_django.core.states import State
from headgate_django.models import Job
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import Process, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]


def storm(process: Process, number: int, pause: float) -> int:
    """Send a signal until the process has ended; the exit code."""
    while process.popen.poll() is None:
        process.signal(number)
        time.sleep(pause)
    return process.wait()


@pytest.mark.parametrize("processes", ["1", "0"], ids=["supervised", "alone"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_that_do_not_cease_until_the_end_change_nothing_about_the_exit_code(number, processes):
    if number == signal.SIGHUP and processes == "0":
        pytest.skip("a process alone leaves SIGHUP to the terminal")
    jobs.once.enqueue("n", 300)
    with worker("--processes", processes) as process:
        wait_until(lambda: Run.objects.count() == 1, "entered")
        assert storm(process, number, 0.0005) == 0, process.output

    assert Job.objects.filter(state=State.AVAILABLE, interruptions=1, crash_attempt=0).count() == 1


def test_a_storm_of_ending_children_is_survived():
    with worker("--processes", "2", "--threads", "4", "--lease", "300") as process:
        for _ in range(300):
            process.signal(signal.SIGCHLD)
        enqueued = [jobs.alone.enqueue("nothing") for _ in range(12)]
        for child in process.children()[:1]:
            os.kill(child, signal.SIGKILL)
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() == len(enqueued), "all completed")
        process.signal(signal.SIGTERM)
        assert process.wait() == 0, process.output


def test_quit_during_start_up_ends_everything_with_exit_code_0():
    for delay in (0.0, 0.1, 0.3):
        with worker("--processes", "2", ready=False) as process:
            process.wait_for_line("starting")
            time.sleep(delay)
            process.signal(signal.SIGQUIT)
            assert process.wait() == 0, process.output
            assert process.children() == []
