"""Progress is stored for many runs at once, under their fences, without touching an index."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from headgate_django.core.outcomes import Outcome, Progress
from headgate_django.core.states import Event
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.progress import write_progress
from headgate_django.models import Job
from tests.support.builders import queued, running
from tests.support.plans import watched

pytestmark = pytest.mark.django_db


def stored(job: Job) -> tuple[int, int, str, int | None]:
    job.refresh_from_db()
    return job.progress_done, job.progress_total, job.progress_note, job.progress_at_ms


def test_each_run_gets_its_own_progress_and_the_store_s_time(now):
    first, claim = running()
    second, other = running()
    now.advance(seconds=7)

    write_progress([(claim, Progress(7, 120, "rows")), (other, Progress(2**63 - 1, 0, "日本"))], "default")

    assert stored(first) == (7, 120, "rows", now.at_ms)
    assert stored(second) == (2**63 - 1, 0, "日本", now.at_ms)


def test_of_one_run_the_last_report_counts(now):
    job, claim = running()

    write_progress([(claim, Progress(1)), (claim, Progress(3)), (claim, Progress(2))], "default")

    assert stored(job)[0] == 2


@pytest.mark.parametrize("change", [{"lease_id": "other"}, {"fence": 7}])
def test_a_report_under_another_lease_writes_nothing(change, now):
    job, claim = running()

    write_progress([(replace(claim, **change), Progress(5))], "default")

    assert stored(job) == (0, 0, "", None)


def test_a_report_after_the_end_writes_nothing(now):
    job, claim = running()
    ack([(claim, Outcome(event=Event.SUCCEED))])

    write_progress([(claim, Progress(5))], "default")

    assert stored(job) == (0, 0, "", None)


def test_nothing_to_report_sends_nothing(now):
    with CaptureQueriesContext(connection) as queries:
        write_progress([], "default")

    assert len(queries) == 0


def test_many_reports_are_one_statement(now):
    claims = [running()[1] for _ in range(20)]

    with CaptureQueriesContext(connection) as queries:
        write_progress([(claim, Progress(1)) for claim in claims], "default")

    assert len(queries) == 1
    assert Job.objects.filter(progress_done=1).count() == 20


def test_the_rows_are_found_by_their_ids(now):
    for _ in range(30):
        queued()
    _, claim = running()

    with watched() as watch:
        write_progress([(claim, Progress(1))], "default")

    assert not any("headgate_job_" in index for index in watch.one("progress_done").indexes)


def test_no_index_knows_a_column_of_the_progress():
    indexed = {str(index.expressions) + str(index.fields) + str(index.condition) for index in Job._meta.indexes}

    assert not any("progress" in text for text in indexed)


def test_on_postgresql_every_report_is_a_heap_only_update(vendor, now):
    if vendor != "postgresql":
        pytest.skip("only PostgreSQL writes a new version of a row for every change")
    with connection.cursor() as cursor:  # a page of its own, not one that other tests have filled
        cursor.execute("TRUNCATE headgate_django_job CASCADE")
    _, claim = running()
    before = updates()

    for done in range(10):
        write_progress([(claim, Progress(done, 10, "rows"))], "default")

    after = updates()
    assert (after[0] - before[0], after[1] - before[1]) == (10, 10)


def updates() -> tuple[int, int]:
    """Rows of jobs that this transaction has updated, and how many of them without touching an index."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_stat_get_xact_tuples_updated(oid), pg_stat_get_xact_tuples_hot_updated(oid)"
            " FROM pg_class WHERE relname = 'headgate_django_job'"
        )
        return cursor.fetchone()
