"""A worker whose connections are ended, while the server goes on, hears of work again at once."""

from __future__ import annotations

import os

import pytest

from headgate_django.core.states import State
from headgate_django.models import Job
from headgate_django.models.store import fetch
from tests.sample import jobs
from tests.support.processes import terminate, wait_until, worker

pytestmark = [
    pytest.mark.process,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="SQLite has no sessions to end"),
]


def end_others() -> int:
    rows = fetch(
        "default",
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    return len(rows)


def test_an_idle_worker_listens_again_when_its_sessions_were_ended():
    # So seldom does it poll and beat that only a notification can be the reason.
    with worker("--poll-interval", "600", "--lease", "300", "--no-duties") as process:
        for count in range(1, 4):
            wait_until(end_others, "it is connected")
            job = jobs.ok.enqueue(count)
            wait_until(lambda job=job: Job.objects.filter(pk=job.pk, state=State.COMPLETED), "heard of")
        assert terminate(process) == 0, process.output

    assert "Traceback" not in process.output
    assert 1 <= process.output.count("cannot") <= 3
    assert process.output.count("cannot") == process.output.count("answers again")
