"""The database has done what it was told, and its reply is lost with the connection. No job pays for it."""

from __future__ import annotations

import os

import pytest
from django.db.models import Max, Sum

from headgate_django import enqueue_many
from headgate_django.core.states import State
from headgate_django.models import Attempt, Job
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import terminate, wait_until, worker
from tests.support.proxy import losing_replies

pytestmark = [
    pytest.mark.process,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="SQLite has no connection to lose"
    ),
]

JOBS, TIMES = 40, 3
ADMISSION = "SET state = 'running'"
ACK = "FROM settled"


def finish_all(marker: str, at: str) -> str:
    """Run jobs under leases that outlive the test, while replies are lost; the worker's output."""
    enqueue_many([jobs.visits.envelope(0) for _ in range(JOBS)])
    with losing_replies(marker, at=at, times=TIMES) as proxy:
        options = ("--threads", "4", "--lease", "300")
        with worker(*options, HEADGATE_TEST_DATABASE_URL=proxy.url) as process:
            wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() == JOBS, "all are done")
            assert terminate(process) == 0, process.output
        assert proxy.lost == TIMES
    assert Run.objects.count() == JOBS
    totals = Job.objects.aggregate(Sum("attempt"), Sum("crash_attempt"))
    assert totals == {"attempt__sum": 0, "crash_attempt__sum": 0}
    assert "Traceback" not in process.output
    return process.output


def test_jobs_that_were_admitted_without_an_answer_are_given_back_at_once():
    output = finish_all(ADMISSION, at="COMMIT")

    assert output.count("the reply to their admission was lost") == TIMES
    assert set(Attempt.objects.values_list("error_class", "outcome")) == {("Unheard", "interrupt")}
    assert Job.objects.aggregate(most=Max("fence"))["most"] > 1


def test_an_end_that_was_written_without_an_answer_is_written_once_and_nobody_is_alarmed():
    output = finish_all(ACK, at=ACK)

    assert Job.objects.aggregate(most=Max("fence"))["most"] == 1
    assert "its lease was lost" not in output
