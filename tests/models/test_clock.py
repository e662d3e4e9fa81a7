"""The store's clock: integer milliseconds, the same on every database, and movable in tests."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from django.db import transaction

from headgate_django.core.durations import MAX_INSTANT_MS
from headgate_django.models import Job, clock
from headgate_django.models.store import fetch
from tests.support.builders import queued


@pytest.mark.django_db
def test_the_databases_agree_on_the_time_in_milliseconds(vendor):
    with closing(sqlite3.connect(":memory:")) as other:
        [before] = other.execute(f"SELECT {clock._NOW['sqlite']}").fetchone()
        now_ms = clock.now_ms("default")
        [after] = other.execute(f"SELECT {clock._NOW['sqlite']}").fetchone()

    assert [type(value) for value in (before, now_ms, after)] == [int, int, int]
    assert before - 1 <= now_ms <= after + 1


@pytest.mark.django_db
def test_the_time_goes_on_inside_a_transaction():
    # The time of enqueue is the call's, not the start of a transaction that has been open for long.
    with transaction.atomic():
        first = clock.now_ms("default")
        moved = any(clock.now_ms("default") > first for _ in range(100_000))

    assert moved


@pytest.mark.django_db
def test_an_instant_reads_as_an_aware_datetime(now):
    job = queued(delay_ms=1_500)

    assert job.enqueued_at.isoformat() == "2026-01-01T00:00:00+00:00"
    assert job.scheduled_at.isoformat() == "2026-01-01T00:00:01.500000+00:00"
    assert (job.finalized_at, job.deadline, job.lease_expires_at) == (None, None, None)
    assert not hasattr(Job, "retention")  # a duration is no instant


@pytest.mark.django_db
def test_every_accepted_instant_can_be_shown():
    job = queued(scheduled_at_ms=MAX_INSTANT_MS, deadline_ms=MAX_INSTANT_MS)
    job.refresh_from_db()

    assert (job.scheduled_at.year, job.deadline.year) == (9999, 9999)


@pytest.mark.django_db
def test_the_frozen_clock_stands_still_until_it_is_moved(now, django_assert_num_queries):
    with django_assert_num_queries(0):
        start = clock.now_ms("default")
        assert clock.now_ms("default") == start == now.at_ms

    assert now.advance(milliseconds=1, seconds=1.5, minutes=1, days=1) == start + 1 + 1_500 + 60_000 + 86_400_000
    assert clock.now_ms("default") == now.at_ms
    assert fetch("default", f"SELECT {clock.now_sql('default')}") == [(now.at_ms,)]


@pytest.mark.django_db
def test_the_clock_goes_on_after_the_freeze_even_if_the_test_fails(now):
    with pytest.raises(ZeroDivisionError), clock.frozen(5):
        _ = 1 / (clock.now_ms("default") - 5)

    assert clock.now_ms("default") == now.at_ms
