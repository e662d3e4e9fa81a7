"""What a run leaves in the database besides its state: logs, progress, and effects that share its transaction."""

from __future__ import annotations

import os
import signal

import pytest

from headgate_django.core.states import State
from headgate_django.models import Attempt, Job
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("handler", [jobs.logs_and_fails, jobs.logs_and_fails_alone, jobs.logs_and_fails_async])
def test_what_a_run_logged_is_kept_with_its_attempt_and_nobody_elses(handler):
    ours = [handler.enqueue(f"word{n}") for n in range(3)]

    with worker("--burst", ready=False) as process:
        assert process.wait() == 0, process.output

    for number, job in enumerate(ours):
        logs = Attempt.objects.get(job=job).logs
        assert f"said word{number}" in logs
        assert not any(f"word{other}" in logs for other in range(3) if other != number)


def test_progress_shows_while_the_job_runs():
    job = jobs.progresses.enqueue()
    with worker() as process:
        wait_until(lambda: Job.objects.get(pk=job.pk).progress_note == "half", "its progress is shown")
        job.refresh_from_db()
        assert (job.state, job.progress_done, job.progress_total) == (State.RUNNING, 60, 120)
        Run.objects.create(name="go on")
        wait_until(lambda: Job.objects.get(pk=job.pk).state == State.COMPLETED, "completed")
        assert terminate(process) == 0


@pytest.mark.parametrize("handler", [jobs.atomic, jobs.atomic_alone], ids=["thread", "cell"])
def test_the_effects_of_an_atomic_handler_happen_once_with_its_ack_or_not_at_all(handler):
    good = [handler.enqueue(n) for n in range(10)]
    bad = handler.using(max_attempts=1).enqueue(-1)

    with worker("--burst", "--threads", "4", ready=False) as process:
        assert process.wait() == 0, process.output

    bad.refresh_from_db()
    assert Job.objects.filter(pk__in=[job.pk for job in good], state=State.COMPLETED, fence=1).count() == 10
    assert (bad.state, bad.error_class) == (State.ARCHIVED, "ValueError")
    assert sorted(Run.objects.values_list("attempt", flat=True)) == list(range(10))


def test_an_atomic_handler_whose_process_is_killed_has_done_nothing(vendor):
    job = jobs.atomic.enqueue(7, wait=True)
    with worker("--lease", "300") as process:
        wait_until(lambda: Job.objects.get(pk=job.pk).state == State.RUNNING, "runs")
        [child] = process.children()
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: Job.objects.get(pk=job.pk).state == State.COMPLETED, "completed in its second run")
        assert terminate(process) == 0

    assert Run.objects.filter(attempt=7).count() == 1
    assert Job.objects.get(pk=job.pk).crash_attempt == 1
