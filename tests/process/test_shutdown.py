"""Stopping a worker costs no job anything."""

from __future__ import annotations

import signal

import pytest

from headgate_django import enqueue_many
from headgate_django.core.states import State
from headgate_django.models import Attempt, Duty, Job, Worker
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_running_jobs_finish_and_admits_no_more(number):
    enqueue_many([jobs.sleeps.envelope(1.0) for _ in range(4)])
    with worker("--threads", "2") as process:
        wait_until(lambda: Run.objects.count() == 2, "two handlers entered")
        process.signal(number)
        assert process.wait() == 0, process.output

    assert Job.objects.filter(state=State.COMPLETED).count() == 2
    assert Job.objects.filter(state=State.AVAILABLE, attempt=0, interruptions=0).count() == 2
    assert Worker.objects.count() == 0
    assert set(Duty.objects.values_list("holder", flat=True)) <= {""}


def test_when_the_time_is_up_leases_are_given_back_and_cost_nothing():
    enqueue_many([jobs.sleeps.envelope(300), jobs.asynchronous.envelope(300)])
    with worker("--shutdown-timeout", "0.5") as process:
        wait_until(lambda: Job.objects.filter(state=State.RUNNING).count() == 2, "both run")
        assert terminate(process) == 0, process.output

    for job in Job.objects.all():
        assert (job.state, job.attempt, job.crash_attempt, job.interruptions) == (State.AVAILABLE, 0, 0, 1)
    assert Attempt.objects.count() == 2


def test_a_second_signal_gives_leases_back_at_once():
    jobs.sleeps.enqueue(300)
    with worker("--shutdown-timeout", "300") as process:
        wait_until(lambda: Run.objects.count() == 1, "the handler entered")
        process.signal(signal.SIGTERM)
        process.wait_for_line("stopping: 1 running")
        process.signal(signal.SIGTERM)
        assert process.wait() == 0, process.output

    job = Job.objects.get()
    assert (job.state, job.interruptions) == (State.AVAILABLE, 1)


def test_a_handler_that_notices_the_shutdown_is_interrupted_not_failed():
    jobs.waits.enqueue()
    with worker("--shutdown-timeout", "0.2") as process:
        wait_until(lambda: Run.objects.count() == 1, "the handler entered")
        assert terminate(process) == 0, process.output

    job = Job.objects.get()
    assert (job.state, job.attempt, job.interruptions) == (State.AVAILABLE, 0, 1)


def test_a_wrong_option_is_named_with_a_suggestion_and_nothing_runs():
    with worker("--threads", "none", ready=False) as process:
        assert process.wait() == 1

    assert "--threads must be a whole number, not 'none'" in process.output


def test_an_environment_variable_sets_an_option_and_a_flag_beats_it():
    with worker("--threads", "2", HEADGATE_THREADS="7", HEADGATE_QUEUES="critical:6,default:3") as process:
        line = process.wait_for_line("ready")
        assert terminate(process) == 0

    assert "2 threads" in line
    assert "critical:6,default:3" in line
