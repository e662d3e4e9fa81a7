"""The page of a job tells how far its run has come, and that there are logs, which it does not show."""

from __future__ import annotations

import ast
import re

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext

from headgate_django.control.presentation import MAX_SHOWN
from headgate_django.control.reveal import MAX_RUNS, reveal
from headgate_django.core.outcomes import Outcome, Progress
from headgate_django.core.states import Event
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.progress import write_progress
from headgate_django.models import Attempt
from tests.admin.conftest import BASE
from tests.architecture.source import modules
from tests.support.builders import BOOM, ended, queued, running

pytestmark = pytest.mark.django_db

SECRET = "hunter2-77aa"


def page(client, job) -> str:
    return client.get(f"{BASE}job/{job.pk}/change/").content.decode()


def logged(*texts: str):
    """A job whose runs have failed and logged these texts."""
    job, claim = running()
    for number, text in enumerate(texts):
        if number:
            [claim] = Gate("w1", queues={job.queue: 1}).admit(1)
        ack([(claim, Outcome(event=Event.RETRY, delay_ms=0, failure=BOOM, logs=text))])
    return job


def test_a_running_job_shows_a_bar_with_words(now, site):
    job, claim = running()
    write_progress([(claim, Progress(1_250, 5_000, "rows <b>"))], "default")

    text = page(site, job)

    assert "<strong>Progress:</strong> 1,250 of 5,000 (25 %) rows &lt;b&gt;" in text
    assert 'value="1250" max="5000" aria-label="Progress of the run">1,250 of 5,000 (25 %)</progress>' in text


def test_without_a_total_there_are_words_and_no_bar(now, site):
    job, claim = running()
    write_progress([(claim, Progress(7, 0, "rows"))], "default")

    text = page(site, job)

    assert "<strong>Progress:</strong> 7 rows" in text
    assert "<progress" not in text


@pytest.mark.parametrize(
    ("progress", "words"), [(Progress(9, 3), "9 of 3 (100 %)"), (Progress(2**63 - 1, 2**63 - 1), "(100 %)")]
)
def test_a_bar_is_never_fuller_than_full(progress, words, now, site):
    job, claim = running()
    write_progress([(claim, progress)], "default")

    text = page(site, job)

    assert words in text
    found = re.search(r'value="(\d+)" max="(\d+)"', text)
    assert found is not None
    assert found[1] == found[2]


def test_the_progress_of_a_run_that_is_over_is_said_to_be_that(now, site):
    job, claim = running()
    write_progress([(claim, Progress(7, 10))], "default")
    ack([(claim, Outcome(event=Event.RETRY, delay_ms=0))])
    over = page(site, job)
    now.advance(seconds=5)
    Gate("w1", queues={job.queue: 1}).admit(1)

    assert "Progress of an earlier run:" in over
    assert "Progress of an earlier run:" in page(site, job)


def test_a_job_that_reported_nothing_shows_nothing(now, site):
    assert 'id="progress"' not in page(site, running()[0])


def test_logs_are_redacted_and_not_even_read(now, site):
    job = logged(SECRET * 10)

    with CaptureQueriesContext(connection) as queries:
        text = page(site, job)

    assert SECRET not in text
    assert f"Logs: redacted ({len(SECRET) * 10} characters)." in text
    [read] = [query["sql"] for query in queries.captured_queries if '"traceback"' in query["sql"]]
    assert set(re.findall(r'\w*\W*"headgate_django_attempt"\."logs"', read)) == {
        'LENGTH("headgate_django_attempt"."logs"'
    }


def test_a_reveal_shows_the_logs_of_all_runs_newest_first_and_says_so_on_the_record(now, site):
    job = logged("first <b>", "", "third")

    text = site.post(f"{BASE}job/{job.pk}/reveal/").content.decode()

    assert text.index("Logs of run 3") < text.index("Logs of run 1")
    assert "first &lt;b&gt;" in text
    assert "Logs of run 2" not in text
    assert LogEntry.objects.get().change_message == "Revealed payload, headers and logs of 2 runs."


def test_logs_can_be_revealed_when_the_payload_is_gone(now, site):
    job = logged(SECRET)
    job.payload.delete()

    assert f"{BASE}job/{job.pk}/reveal/" in page(site, job)
    assert SECRET in site.post(f"{BASE}job/{job.pk}/reveal/").content.decode()


def test_a_reveal_is_bounded(now):
    job = ended(Event.SKIP)
    Attempt.objects.bulk_create(
        Attempt(job=job, number=number, started_at_ms=1, finished_at_ms=1, outcome="retry", logs="x" * 70_000)
        for number in range(10, 10 + MAX_RUNS + 5)
    )

    logs = reveal(job.pk, actor=None).logs

    assert len(logs) == MAX_RUNS
    assert {len(text.shown) for _, text in logs} == {MAX_SHOWN}
    assert all(text.cut for _, text in logs)


def test_without_the_permission_there_is_no_button_and_no_answer(now, client_with):
    job = logged(SECRET)
    client = client_with("view_job")

    assert "/reveal/" not in page(client, job)
    assert client.post(f"{BASE}job/{job.pk}/reveal/").status_code == 403


def test_what_was_revealed_does_not_leak_through_repr(now):
    job = logged(SECRET)
    revealed = reveal(job.pk, actor=None)

    assert SECRET not in repr(revealed)
    assert SECRET not in f"{job.attempts.get()} {job.attempts.get()!r}"


def test_only_the_reveal_reads_logs_for_people():
    rooms = ("admin/", "api/", "checks", "contrib/", "control/", "duties/", "gate/", "jobs/", "management/")
    readers = {
        name
        for name, tree in modules().items()
        if name.startswith(rooms)
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr == "logs")
        or (isinstance(node, ast.Constant) and node.value == "logs")
    }

    assert readers == {"control/reveal.py", "control/timeline.py"}  # the latter defers it and asks for its length


def test_a_queued_job_shows_neither(now, site):
    text = page(site, queued())

    assert "Logs: redacted" not in text
    assert "<progress" not in text
