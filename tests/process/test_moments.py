"""SIGTERM at any moment, of the start-up and of the run: exit code 0, and it has cost no job anything."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from headgate_django import enqueue_many
from headgate_django.core.states import State
from headgate_django.models import Attempt, Job
from headgate_django.models.fleet import Duty, Worker
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

MOMENTS = int(os.environ.get("HEADGATE_TEST_MOMENTS", "5"))
"""40 for the full measure."""


def test_a_stop_at_any_moment_costs_nothing_and_leaves_nothing_running(vendor):
    to_group = vendor == "sqlite"  # to the parent alone on the other database: a minute saved
    rng = random.Random(4)
    enqueued = 0
    for moment in range(MOMENTS):
        enqueue_many([jobs.once.envelope(f"m{moment}-{n}", rng.uniform(0.01, 0.2)) for n in range(30)])
        jobs.alone.enqueue("sleep", 0.1)
        enqueued += 31
        with worker("--processes", "2", "--threads", "4", "--shutdown-timeout", "0.3", ready=False) as process:
            # The first stops come before the interpreter has reached the command, the last ones under full load.
            time.sleep(moment * 2.0 / MOMENTS)
            (process.signal_group if to_group else process.signal)(signal.SIGTERM)
            code = process.wait()

        began = "starting" in process.output
        assert code == 0 or (not began and code == -signal.SIGTERM), (moment, code, process.output)
        assert Job.objects.filter(state=State.RUNNING).count() == 0, process.output
        assert Job.objects.filter(attempt=0, crash_attempt=0).count() == enqueued, process.output
        assert Worker.objects.count() == 0, process.output
        assert set(Duty.objects.values_list("holder", flat=True)) <= {""}, process.output

    with worker("--threads", "8", "--burst", ready=False) as process:
        assert process.wait() == 0, process.output
    assert Job.objects.filter(state=State.COMPLETED).count() == enqueued
    assert set(Attempt.objects.values_list("outcome", flat=True)) <= {"interrupt"}
    finished = set(Run.objects.filter(finished=True).values_list("name", flat=True))
    assert len(finished) == MOMENTS * 30
