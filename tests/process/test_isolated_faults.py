"""Jobs in processes of their own, when something goes wrong around them."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest
from django.db import transaction

from headgate_django.core.states import Event, State
from headgate_django.models import Attempt, Job
from headgate_django.models.store import fetch, take_write_lock
from tests.sample import hazards, jobs
from tests.sample.models import Run
from tests.support.processes import terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]


def is_completed(job: Job) -> bool:
    return Job.objects.filter(pk=job.pk, state=State.COMPLETED).exists()


def test_an_isolated_job_that_outlives_its_supervisor_is_acked_when_it_has_ended():
    job = jobs.alone.enqueue("sleep", 1.0)
    with worker("--shutdown-timeout", "4", "--lease", "300") as process:
        wait_until(lambda: Run.objects.count() == 1, "entered")
        [child] = process.children()
        process.signal(signal.SIGKILL)
        wait_until(lambda: not os.path.exists(f"/proc/{child}"), "the child has ended")

    job.refresh_from_db()
    assert (job.state, job.interruptions, job.crash_attempt) == (State.COMPLETED, 0, 0)


def test_an_isolated_job_runs_in_a_process_with_more_than_a_thousand_open_files():
    with worker("--lease", "300") as process:
        opening = hazards.shares.enqueue("opens", 1_100)
        wait_until(lambda: is_completed(opening), "the files are open")
        job = jobs.alone.enqueue("nothing")
        wait_until(lambda: Job.objects.filter(pk=job.pk, fence=1).exclude(state=State.RUNNING), "it has ended")
        assert terminate(process) == 0, process.output

    job.refresh_from_db()
    assert (job.state, job.attempt) == (State.COMPLETED, 0)


def test_a_process_without_descriptors_postpones_an_isolated_job_at_no_cost():
    with worker("--lease", "300", "--threads", "1") as process:
        greedy = hazards.shares.enqueue("opens all", 3)
        wait_until(lambda: is_completed(greedy), "no descriptor is left")
        job = jobs.alone.enqueue("nothing")
        wait_until(lambda: Job.objects.filter(pk=job.pk, fence=1).exclude(state=State.RUNNING), "it has ended")
        assert terminate(process) == 0, process.output

    job.refresh_from_db()
    assert (job.state, job.attempt, job.error_class) == (State.SCHEDULED, 0, "NoProcess")


def test_an_application_that_has_asked_for_much_memory_may_have_jobs_with_a_memory_limit():
    job = hazards.limited.enqueue()
    with worker("--lease", "300", HEADGATE_TEST_CACHE_MB="512") as process:
        wait_until(lambda: Job.objects.filter(pk=job.pk, fence=1).exclude(state=State.RUNNING), "it has ended")
        assert terminate(process) == 0, process.output

    assert is_completed(job), Attempt.objects.get().message


def test_a_process_that_cannot_be_made_ready_postpones_its_job_at_no_cost():
    with worker("--lease", "300", "--no-duties") as process:
        # What it forks from now on has room for data, but not for the stack of a thread.
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + 6 * 1024**2
        resource.prlimit(process.pid, resource.RLIMIT_AS, (limit, limit))
        job = jobs.alone.enqueue("nothing")
        wait_until(lambda: Job.objects.filter(pk=job.pk, fence=1).exclude(state=State.RUNNING), "it has ended")
        assert terminate(process) == 0, process.output

    job.refresh_from_db()
    assert (job.state, job.attempt, job.crash_attempt, job.error_class) == (State.SCHEDULED, 0, 0, "NoProcess")
    assert "thread" in job.error_summary


@pytest.mark.parametrize("forced", [False, True], ids=["drained", "forced"])
def test_an_interrupted_isolated_job_is_dead_before_its_lease_is_given_back(forced):
    job = jobs.stubborn_alone.using(timeout=300).enqueue()
    with worker("--shutdown-timeout", "300" if forced else "0", "--lease", "300") as process:
        wait_until(lambda: Run.objects.count() == 1, "entered")
        cell = Run.objects.get().pid
        process.signal(signal.SIGTERM)
        if forced:
            process.wait_for_line("stopping")
            process.signal(signal.SIGTERM)
        alive_when_given_back = []
        while process.popen.poll() is None:
            if not alive_when_given_back and Job.objects.filter(pk=job.pk, state=State.AVAILABLE).exists():
                alive_when_given_back.append(os.path.exists(f"/proc/{cell}"))
        assert process.wait() == 0, process.output

    job.refresh_from_db()
    assert (job.state, job.interruptions, job.crash_attempt) == (State.AVAILABLE, 1, 0)
    assert alive_when_given_back == [False]
    assert Attempt.objects.get().outcome == Event.INTERRUPT


def test_an_isolated_job_that_crashes_while_the_worker_stops_is_a_crash():
    job = jobs.alone.enqueue("sleep", 300)
    with worker("--shutdown-timeout", "300", "--lease", "300") as process:
        wait_until(lambda: Run.objects.count() == 1, "entered")
        process.signal(signal.SIGTERM)
        process.wait_for_line("stopping")
        os.kill(Run.objects.get().pid, signal.SIGSEGV)
        assert process.wait() == 0, process.output

    job.refresh_from_db()
    assert (job.state, job.interruptions, job.crash_attempt) == (State.RETRYABLE, 0, 1)


def test_an_isolated_job_that_has_ended_is_not_blamed_when_its_worker_dies_before_it_could_say_so(vendor):
    job = jobs.alone.enqueue("sleep", 0.5)
    with worker("--lease", "300", "--no-duties") as process:
        wait_until(lambda: Run.objects.count() == 1, "entered")
        [child] = process.children()
        with transaction.atomic():  # the end of the run cannot be written
            take_write_lock("default")
            Job.objects.select_for_update().get(pk=job.pk)
            wait_until(lambda: process.cells() == [], "it has ended")
            os.kill(child, signal.SIGKILL)
            wait_until(lambda: child not in process.children(), "the worker is dead")
            if vendor == "postgresql":  # the server may not know yet that nobody waits for what it does
                fetch(
                    "default",
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND wait_event_type = 'Lock'",
                )
        wait_until(lambda: is_completed(job), "completed by another run")
        assert terminate(process) == 0, process.output

    job.refresh_from_db()
    assert (job.crash_attempt, job.interruptions) == (0, 1)
