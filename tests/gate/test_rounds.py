"""Rounds of one admit: refused jobs in front, partitions of many streams, and very large capacities."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from django.db import connection

from headgate_django.core.allocation import Group, Stream
from headgate_django.core.states import State
from headgate_django.gate.admit import Gate
from headgate_django.gate.draw import draw
from headgate_django.models import Job, Quarantine
from headgate_django.signals import job_admitted
from tests.support.backlog import Backlog, load

PAST = 1_000


def count(state: State) -> int:
    return Job.objects.filter(state=state).count()


@pytest.mark.parametrize("capacity", [1, 10])
def test_thousands_of_expired_jobs_in_front_do_not_hide_the_work_behind(now, admit, capacity: int):
    load(
        Backlog(count=5_000, deadline_ms=PAST, priority=9),
        Backlog(count=capacity, prefix="good"),
    )

    claims = admit(capacity)

    assert [claim.id[:4] for claim in claims] == ["good"] * capacity
    assert count(State.ARCHIVED) == 5_000


def test_quarantined_jobs_in_front_do_not_hide_the_work_behind(now, admit):
    load(Backlog(count=500, priority=9), Backlog(count=1, prefix="good"))
    poisoned = Job.objects.filter(priority__gte=9).values_list("fingerprint", flat=True)
    Quarantine.objects.bulk_create(
        Quarantine(fingerprint=fingerprint, kind="sample:ok", reason="test", created_at_ms=1)
        for fingerprint in poisoned
    )
    Job.objects.filter(id__startswith="good").update(fingerprint="f")

    [claim] = admit(1)

    assert claim.id.startswith("good")
    assert count(State.QUARANTINED) == 500


def test_expired_jobs_in_all_of_many_partitions_are_worked_off_in_bounded_admits(now):
    load(
        Backlog(count=5_000, partitions=50, partition="p", deadline_ms=PAST, priority=9),
        Backlog(count=50, prefix="good", partitions=50, partition="p"),
    )
    gate = Gate("w1")

    claims = [claim for _ in range(5) for claim in gate.admit(20)]

    assert {claim.id[:4] for claim in claims} == {"good"}
    assert len(claims) == 50


def test_a_share_goes_to_the_best_of_many_rate_classes_in_order(now, admit):
    load(Backlog(count=3_000, rate_classes=100))
    Job.objects.filter(rate_class="c7").update(priority=50)
    best = list(Job.objects.order_by("-priority", "scheduled_at_ms", "id").values_list("id", flat=True)[:200])

    claims = admit(200)

    assert {claim.id for claim in claims} == set(best)
    assert [claim.id for claim in claims] == best


def test_a_partition_of_many_rate_classes_is_not_drawn_whole(now):
    load(Backlog(count=20_000, rate_classes=100))
    streams = [Stream("default", "", f"c{number}", "") for number in range(100)]

    drawn = draw({Group("default", ""): 100}, streams, using="default")

    assert len(drawn.candidates) >= 8
    assert len(drawn.candidates) <= 800
    assert drawn.candidates == sorted(drawn.candidates)
    assert not drawn.dry


def test_ten_thousand_jobs_are_admitted_at_once_and_no_more(now, admit):
    load(Backlog(count=10_500))

    assert len(admit(1_000_000_000)) == 10_000
    assert count(State.AVAILABLE) == 500


@pytest.fixture
def few_parameters(now, vendor: str) -> Iterator[None]:
    """SQLite as it was built for years: 999 parameters in one statement."""
    if vendor != "sqlite":
        yield
        return
    raw = connection.connection
    usual = raw.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
    raw.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)
    yield
    raw.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, usual)


def test_an_admit_fits_into_the_smallest_limit_on_parameters(few_parameters, admit):
    load(
        Backlog(count=2_500, partitions=300, partition="p"),
        Backlog(count=1_500, prefix="x", partition="p1", deadline_ms=PAST, priority=9),
        Backlog(count=1_500, prefix="s", state=State.SCHEDULED, partition="due"),
    )

    claims = admit(3_000)

    assert len(claims) == 3_000
    assert len({claim.id for claim in claims}) == 3_000
    assert count(State.ARCHIVED) == 1_500


def test_an_admit_that_gives_nothing_reports_nothing(now, admit, django_capture_on_commit_callbacks):
    told = []

    def receiver(claims, **facts):
        told.append(len(claims))

    job_admitted.connect(receiver)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            admit(5)
        load(Backlog(count=2))
        with django_capture_on_commit_callbacks(execute=True):
            admit(5)
    finally:
        job_admitted.disconnect(receiver)

    assert told == [2]
