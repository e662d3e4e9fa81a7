"""An operator cancels a running job: the handler learns of it, and what it writes late is refused."""

from __future__ import annotations

import os

import pytest

from headgate_django.core.states import State
from headgate_django.lifecycle.cancel import cancel
from headgate_django.models import Job
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

# With such a lease renewals are 100 seconds apart, so that only a message can be the reason. SQLite has none.
LEASE = "300" if os.environ.get("HEADGATE_TEST_DB") == "postgres" else "1"


@pytest.mark.parametrize("threads", ["1", "4"], ids=["busy worker", "free worker"])
@pytest.mark.parametrize("handler", [jobs.heeds, jobs.heeds_async], ids=["thread", "async"])
def test_a_running_handler_learns_that_its_job_is_cancelled(handler, threads):
    job = handler.enqueue()
    with worker("--lease", LEASE, "--threads", threads) as process:
        wait_until(lambda: Run.objects.filter(job_id=job.pk), "the handler has begun")
        assert cancel(Job.objects.filter(pk=job.pk)) == 1
        wait_until(lambda: Run.objects.filter(job_id=job.pk, finished=True), "the handler has heard of it")
        process.wait_for_line("its lease was lost")
        assert terminate(process) == 0, process.output

    job.refresh_from_db()
    assert (job.state, job.attempt, job.crash_attempt) == (State.CANCELLED, 0, 0)
