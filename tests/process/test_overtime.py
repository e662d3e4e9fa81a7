"""Runs whose time is up: recorded as timeouts, counted as attempts, and none of them holds the others up."""

from __future__ import annotations

import pytest

from headgate_django.core.states import Event, State
from headgate_django.models import Attempt, Job, Worker
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize(
    "handler", [jobs.slow, jobs.slow_async, jobs.sleeps_alone], ids=["thread", "loop", "cell"]
)
def test_a_handler_that_can_be_interrupted_ends_with_its_timeout_and_its_process_goes_on(handler):
    job = handler.enqueue()
    with worker() as process:
        children = process.children()
        wait_until(lambda: Job.objects.filter(pk=job.pk, state=State.RETRYABLE).exists(), "retryable")
        jobs.ok.enqueue()
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() == 1, "the next job completed")
        assert process.children() == children
        assert terminate(process) == 0

    job.refresh_from_db()
    assert (job.attempt, job.crash_attempt, job.error_class) == (1, 0, "TimeoutError")
    attempt = Attempt.objects.get()
    assert (attempt.outcome, attempt.message) == (Event.RETRY, "attempt timed out after 1000 ms")


@pytest.mark.parametrize("handler", [jobs.stubborn, jobs.stubborn_async], ids=["thread", "loop"])
def test_a_handler_that_ignores_its_timeout_is_fenced_off_and_its_process_recycled_unharmed(handler):
    job = handler.enqueue()
    beside = jobs.once.enqueue("beside", 4.0)
    with worker("--threads", "3", "--timeout-grace", "0.5", "--lease", "2") as process:
        [first] = process.children()
        wait_until(lambda: Job.objects.filter(pk=job.pk, state=State.RETRYABLE).exists(), "fenced off")
        wait_until(lambda: Worker.objects.filter(stuck=1, pid=first).exists(), "the register says stuck")
        assert Run.objects.get(name="beside").finished is False
        wait_until(lambda: process.children() not in ([first], []), "recycled")
        jobs.ok.enqueue()
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() == 2, "the others completed")
        assert terminate(process) == 0, process.output

    job.refresh_from_db()
    beside.refresh_from_db()
    assert (job.attempt, job.crash_attempt, job.error_class, job.fence) == (1, 0, "TimeoutError", 1)
    assert (beside.state, beside.fence, beside.crash_attempt) == (State.COMPLETED, 1, 0)
    assert "stuck" in Attempt.objects.get(job=job).message


@pytest.mark.parametrize(
    "handler", [jobs.slow, jobs.slow_async, jobs.sleeps_alone], ids=["thread", "loop", "cell"]
)
def test_a_deadline_that_passes_while_the_job_runs_archives_it(handler):
    with worker() as process:
        job = handler.using(timeout=60, deadline=2).enqueue()
        wait_until(lambda: Job.objects.filter(pk=job.pk, state=State.ARCHIVED).exists(), "archived")
        assert terminate(process) == 0

    job.refresh_from_db()
    assert (job.attempt, job.error_class, job.fence) == (0, "DeadlineExceeded", 1)
    assert Attempt.objects.get().outcome == Event.EXPIRE


def test_the_clock_of_a_timeout_starts_again_with_each_run():
    job = jobs.slow.using(timeout=2, max_attempts=2).enqueue(seconds=0.1)
    Job.objects.filter(pk=job.pk).update(attempted_at_ms=1, fence=7)

    with worker("--burst", ready=False) as process:
        assert process.wait() == 0

    job.refresh_from_db()
    assert job.state == State.COMPLETED


def test_two_attempts_that_time_out_are_all_that_max_attempts_of_two_allows():
    job = jobs.slow.using(max_attempts=2, timeout=0.3).enqueue()
    with worker() as process:
        wait_until(lambda: Job.objects.filter(pk=job.pk, state=State.RETRYABLE).exists(), "timed out once")
        Job.objects.filter(pk=job.pk).update(scheduled_at_ms=1)
        wait_until(lambda: Job.objects.filter(pk=job.pk, state=State.ARCHIVED).exists(), "archived")
        assert terminate(process) == 0

    assert Run.objects.count() == 2
    assert set(Attempt.objects.values_list("error_class", flat=True)) == {"TimeoutError"}
