"""A worker that is stopped for longer than its lease and wakes up again: it writes nothing any more."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest

from headgate_django.core.states import Event, State
from headgate_django.models import Attempt, Job
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import Process, freeze, terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

LEASE = "1.5"


def frozen_until_another_runs_the_job(frozen: Process, stack: contextlib.ExitStack) -> Process:
    """Stop a worker for longer than its lease, and wake it when another one runs its job; the other one."""
    wait_until(lambda: Job.objects.filter(state=State.RUNNING, fence=1).exists(), "runs")
    time.sleep(0.3)  # well inside the handler
    pids = [frozen.pid, *frozen.children()]
    for pid in pids:
        freeze(pid)
    heir = stack.enter_context(worker("--lease", "60", "--name", "heir"))
    wait_until(lambda: Job.objects.filter(state=State.RUNNING, fence=2).exists(), "runs again")
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    return heir


def test_late_acks_and_progress_of_a_frozen_worker_are_refused_and_the_new_holder_decides():
    job = jobs.wakes_late.enqueue()
    with contextlib.ExitStack() as stack:
        frozen = stack.enter_context(worker("--lease", LEASE, "--name", "frozen", "--no-duties"))
        heir = frozen_until_another_runs_the_job(frozen, stack)
        Run.objects.create(name="wake the first")
        wait_until(lambda: Run.objects.filter(name="first is done").exists(), "the first handler has ended")
        frozen.wait_for_line("its lease was lost")
        job.refresh_from_db()
        assert (job.state, job.fence, job.progress_note) == (State.RUNNING, 2, "")
        Run.objects.create(name="wake the second")
        wait_until(lambda: Job.objects.get(pk=job.pk).state == State.COMPLETED, "completed by its new holder")
        assert terminate(heir) == 0
        assert terminate(frozen) == 0, frozen.output

    job.refresh_from_db()
    assert (job.attempt, job.crash_attempt, job.fence) == (0, 1, 2)
    assert list(Attempt.objects.values_list("outcome", flat=True)) == [Event.LOSE_LEASE]
    # What a lost run enqueued before it learned of the loss stands, unless its handler is atomic.
    assert Job.objects.filter(kind="sample:ok").count() == 2


def test_what_an_atomic_handler_of_a_frozen_worker_enqueued_is_rolled_back(vendor):
    if vendor == "sqlite":
        pytest.skip("SQLite has one writer: while a frozen atomic handler holds it, nobody can take its job")
    job = jobs.wakes_late_atomic.enqueue()
    with contextlib.ExitStack() as stack:
        frozen = stack.enter_context(worker("--lease", LEASE, "--name", "frozen", "--no-duties"))
        heir = frozen_until_another_runs_the_job(frozen, stack)
        Run.objects.create(name="wake the first")
        frozen.wait_for_line("all that it wrote is undone")
        assert Job.objects.filter(kind="sample:ok").count() == 0
        Run.objects.create(name="wake the second")
        wait_until(lambda: Job.objects.get(pk=job.pk).state == State.COMPLETED, "completed by its new holder")
        assert terminate(heir) == 0
        assert terminate(frozen) == 0, frozen.output

    assert Job.objects.filter(kind="sample:ok").count() == 1
