"""A process that can start no more threads, or open no more files: what it has admitted runs, or is given back."""

from __future__ import annotations

import pytest

from headgate_django import enqueue_many
from headgate_django.core.states import State
from headgate_django.models import Job
from tests.sample import hazards, jobs
from tests.support.processes import terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]


def test_jobs_wait_for_the_threads_that_there_are():
    with worker("--threads", "4", "--lease", "300", "--no-duties") as process:
        filling = hazards.shares.enqueue("fills", 6)
        wait_until(lambda: Job.objects.filter(pk=filling.pk, state=State.COMPLETED).exists(), "it is full")
        enqueue_many([jobs.naps.envelope(0.3) for _ in range(8)])
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() == 9, "all completed")
        assert terminate(process) == 0, process.output

    assert "cannot start a thread" in process.output
    assert set(Job.objects.values_list("attempt", "crash_attempt", "fence")) == {(0, 0, 1)}


def test_an_asynchronous_job_without_a_thread_for_its_loop_is_postponed_at_no_cost():
    with worker("--threads", "4", "--lease", "300", "--no-duties") as process:
        filling = hazards.shares.enqueue("fills", 6)
        wait_until(lambda: Job.objects.filter(pk=filling.pk, state=State.COMPLETED).exists(), "it is full")
        job = jobs.asynchronous.enqueue()
        wait_until(lambda: Job.objects.filter(pk=job.pk, state=State.SCHEDULED).exists(), "postponed")
        assert terminate(process) == 0, process.output

    job.refresh_from_db()
    assert (job.attempt, job.crash_attempt, job.interruptions, job.error_class) == (0, 0, 0, "NoThread")


def test_an_asynchronous_job_without_descriptors_for_its_loop_is_postponed_and_the_others_run():
    with worker("--threads", "4", "--lease", "300", "--no-duties") as process:
        enqueue_many([jobs.naps.envelope(0) for _ in range(4)])  # connections are open before there are no more
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() == 4, "all completed")
        greedy = hazards.shares.enqueue("opens all", 1)
        wait_until(lambda: Job.objects.filter(pk=greedy.pk, state=State.COMPLETED).exists(), "none is left")
        job, *_ = enqueue_many([jobs.asynchronous.envelope(), *(jobs.naps.envelope(0) for _ in range(3))])
        wait_until(lambda: Job.objects.filter(pk=job.pk, state=State.SCHEDULED).exists(), "postponed")
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() == 8, "all completed")
        assert terminate(process) == 0, process.output

    job.refresh_from_db()
    assert (job.attempt, job.crash_attempt, job.interruptions, job.error_class) == (0, 0, 0, "NoThread")
    assert not Job.objects.filter(fence__gt=1).exists()
