"""The start of a worker: what an import does to it, what it was started with, and what is not there yet."""

from __future__ import annotations

import os
import signal

import pytest

from headgate_django.core.states import State
from headgate_django.models import Job
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import terminate, wait_until, worker

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
