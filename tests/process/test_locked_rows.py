"""Somebody has locked the row of a running job: the others of its worker do not wait, and keep their leases."""

from __future__ import annotations

import signal

import pytest

from headgate_django import enqueue_many
from headgate_django.core.states import State
from headgate_django.models import Job, Worker
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.locks import held
from tests.support.processes import terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]


def completed() -> int:
    return Job.objects.filter(state=State.COMPLETED).count()


@pytest.mark.parametrize("listen", ["yes", "no"], ids=["listening", "polling"])
def test_a_locked_running_job_holds_up_neither_the_acks_nor_the_renewals_of_the_others(vendor, listen: str):
    if vendor == "sqlite":
        pytest.skip("SQLite locks no rows")
    locked = jobs.once.enqueue("locked", 0.5)
    jobs.once.enqueue("long", 6.0)
    with worker("--lease", "4", HEADGATE_TEST_LISTEN=listen) as process:
        wait_until(lambda: Run.objects.count() == 2, "both entered")
        with held(lambda: Job.objects.select_for_update().get(pk=locked.pk)):
            wait_until(lambda: Run.objects.filter(name="locked", finished=True).exists(), "its handler has ended")
            enqueue_many([jobs.recorded.envelope(f"n{n}") for n in range(20)])
            wait_until(lambda: completed() == 21, "all others completed meanwhile, the long one too")
        wait_until(lambda: completed() == 22, "all completed")
        assert terminate(process) == 0, process.output

    # Whoever locks a running job for longer than its lease may cost that one a second run, but no other.
    assert set(Job.objects.exclude(pk=locked.pk).values_list("fence", "crash_attempt")) == {(1, 0)}


def test_a_worker_that_ends_while_a_job_of_it_is_locked_gives_that_one_back_afterwards(vendor):
    if vendor == "sqlite":
        pytest.skip("SQLite locks no rows")
    locked, free = jobs.once.enqueue("locked", 60.0), jobs.once.enqueue("free", 60.0)
    with worker("--lease", "300") as process:
        wait_until(lambda: Run.objects.count() == 2, "both entered")
        with held(lambda: Job.objects.select_for_update().get(pk=locked.pk)):
            process.signal(signal.SIGTERM)
            process.wait_for_line("stopping")
            process.signal(signal.SIGTERM)
            wait_until(lambda: not Worker.objects.exists(), "it has left")
        assert process.wait() == 0, process.output

    for job in (locked, free):
        job.refresh_from_db()
        assert (job.state, job.interruptions, job.crash_attempt) == (State.AVAILABLE, 1, 0)
