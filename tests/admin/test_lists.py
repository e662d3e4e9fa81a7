"""The lists of jobs: fast, payload-free, bounded, and in an order that an index supports."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from headgate_django.admin.paging import BoundedPaginator
from headgate_django.control import window
from headgate_django.core.outcomes import Failure
from headgate_django.core.states import STORED, Event, State
from headgate_django.models import Job, Queue
from tests.admin.conftest import BASE, messages_of
from tests.support.backlog import Backlog, load
from tests.support.builders import ended, in_state, queued
from tests.support.plans import watched

pytestmark = pytest.mark.django_db

LISTS = ["job", "archivedjob", "queue", "quarantine", "partition", "worker", "duty"]


def ids_of(page):
    return [job.pk for job in page.context["cl"].result_list]


@pytest.mark.parametrize("screen", ["job", "archivedjob"])
def test_the_number_of_statements_does_not_grow_and_no_payload_is_read(screen, now, site):
    big = {"blob": "x" * 100_000}
    failure = Failure(error_class="E", message="m", traceback="t" * 50_000)
    ended(Event.SKIP, failure, arguments=big)
    site.get(f"{BASE}{screen}/")
    with CaptureQueriesContext(connection) as one:
        site.get(f"{BASE}{screen}/")
    for number in range(99):
        ended(Event.SKIP, failure, arguments=big, partition_key=str(number))

    with CaptureQueriesContext(connection) as hundred:
        page = site.get(f"{BASE}{screen}/")

    assert len(ids_of(page)) == 100
    assert len(hundred) == len(one) <= 8
    read = " ".join(query["sql"] for query in hundred.captured_queries)
    assert "headgate_django_payload" not in read
    assert "headgate_django_attempt" not in read
    assert "DISTINCT" not in read


@pytest.mark.parametrize("screen", LISTS)
def test_no_list_touches_payloads(screen, now, site):
    for state in STORED:
        in_state(state)
    Queue.objects.create(name="builders")

    with CaptureQueriesContext(connection) as queries:
        page = site.get(f"{BASE}{screen}/")

    assert page.status_code == 200
    assert not [query for query in queries.captured_queries if "headgate_django_payload" in query["sql"]]


def test_counts_stop_at_ten_thousand(now, site):
    load(Backlog(count=10_101, payloads=False))

    page = site.get(f"{BASE}job/")

    assert "10,000+ jobs" in page.content.decode()
    assert page.context["cl"].paginator.num_pages == 100
    assert site.get(f"{BASE}job/?p=100").status_code == 200
    assert site.get(f"{BASE}job/?p=101").status_code == 302


def test_behind_the_last_page_the_keyset_goes_on(now, site, monkeypatch):
    monkeypatch.setattr(BoundedPaginator, "bound", 150)
    load(Backlog(count=260, payloads=False))

    last = site.get(f"{BASE}job/?p=2")
    beyond = site.get(f"{BASE}job/{last.context['cl'].beyond}")

    assert last.context["cl"].beyond in last.content.decode()
    assert ids_of(last)[-1] == "b1000000110"
    assert ids_of(beyond)[0] == "b1000000109"
    assert beyond.context["cl"].beyond == ""


def test_the_dead_letters_go_on_by_when_they_died(now, site, monkeypatch):
    monkeypatch.setattr(BoundedPaginator, "bound", 1)
    for name in ("first", "second", "third"):
        in_state(State.ARCHIVED, id=name)
        now.advance(seconds=1)

    page = site.get(f"{BASE}archivedjob/")

    assert ids_of(page) == ["third", "second", "first"]
    assert re.fullmatch(r"\?finalized_at_ms__lte=\d+", page.context["cl"].beyond)


def test_the_newest_job_comes_first_and_nothing_else_can_be_asked_for(now, site):
    for name in ("a", "c", "b"):
        queued(id=name, priority=ord(name))

    for query in ("", "?o=1", "?o=-5.2", "?o=2"):
        assert ids_of(site.get(f"{BASE}job/{query}")) == ["c", "b", "a"]


@pytest.mark.parametrize("state", sorted(STORED))
def test_the_state_filter_keeps_that_state(state, now, site):
    jobs = {one: in_state(one) for one in STORED}

    found = ids_of(site.get(f"{BASE}job/?state={state}"))

    assert jobs[State(state)].pk in found
    assert set(Job.objects.filter(pk__in=found).values_list("state", flat=True)) == {state}


def test_the_queue_filter_offers_policies_and_queues_with_work(now, site):
    Queue.objects.create(name="policy")
    queued(queue="work")
    in_state(State.ARCHIVED, queue="dead")

    page = site.get(f"{BASE}job/")
    chosen = site.get(f"{BASE}job/?queue=dead")

    spec = page.context["cl"].filter_specs[1]
    assert [value for value, _ in spec.lookup_choices] == ["policy", "work"]
    assert Job.objects.get(pk=ids_of(chosen)[0]).queue == "dead"
    assert len(ids_of(chosen)) == 1


def test_the_time_filter_goes_by_the_clock_of_the_store(now, site):
    old = queued()
    now.advance(minutes=90)
    new = queued()

    assert ids_of(site.get(f"{BASE}job/?enqueued=hour")) == [new.pk]
    assert set(ids_of(site.get(f"{BASE}job/?enqueued=day"))) == {old.pk, new.pk}


def test_dead_letters_are_filtered_by_when_they_died_and_by_the_same_error(now, site):
    ended(Event.SKIP, Failure(error_class="Old", message="m", group="o" * 32), id="old")
    now.advance(minutes=90)
    ended(Event.SKIP, Failure(error_class="New", message="m", group="n" * 32), id="new")

    page = site.get(f"{BASE}archivedjob/")

    assert ids_of(site.get(f"{BASE}archivedjob/?died=hour")) == ["new"]
    assert ids_of(site.get(f"{BASE}archivedjob/?error_group={'o' * 32}")) == ["old"]
    assert f"{BASE}archivedjob/?error_group={'o' * 32}" in page.content.decode()


def test_dead_letters_are_the_archived_jobs(now, site):
    jobs = {state: in_state(state) for state in STORED}

    assert ids_of(site.get(f"{BASE}archivedjob/")) == [jobs[State.ARCHIVED].pk]
    assert site.get(f"{BASE}archivedjob/{jobs[State.RUNNING].pk}/change/").status_code == 302


@pytest.mark.parametrize(
    "query",
    [
        "?state=nonsense",
        "?enqueued=century",
        "?queue=a%00b",
    ],
)
def test_a_wrong_filter_leads_back_to_the_list(query, now, site):
    queued()

    assert site.get(f"{BASE}job/{query}").url == f"{BASE}job/?e=1"


@pytest.mark.parametrize(
    "lookup",
    [
        "kind__icontains",
        "payload__data__contains",
        "payload__headers__icontains",
        "attempts__message__gt",
        "x",
    ],
)
def test_no_other_condition_is_taken_from_the_address(lookup, now, site):
    assert site.get(f"{BASE}job/?{lookup}=x").status_code == 400


def test_a_search_by_id_or_prefix_finds(now, site):
    job = queued(kind="email:welcome", tags=("vip",))
    queued()

    assert ids_of(site.get(f"{BASE}job/?q={job.pk}")) == [job.pk]
    assert ids_of(site.get(f"{BASE}job/?q=kind:email:welcome+tag:vip")) == [job.pk]


def test_other_text_is_not_searched_and_says_how_to_ask(now, site):
    queued(kind="email:welcome")

    with CaptureQueriesContext(connection) as queries:
        page = site.get(f"{BASE}job/?q=welcome")

    assert ids_of(page) == []
    assert messages_of(page) == [
        "No job has this id. To search, put one of these before a word: kind:, queue:, partition:, tag:, error:"
    ]
    assert not [query for query in queries.captured_queries if "LIKE" in query["sql"]]


def test_a_search_looks_at_the_newest_jobs_only(now, site, monkeypatch):
    monkeypatch.setattr(window, "SIZE", 2)
    for name in ("a", "b", "c"):
        queued(id=name, kind="email:welcome")

    assert ids_of(site.get(f"{BASE}job/?q=kind:email:welcome")) == ["c", "b"]
    assert ids_of(site.get(f"{BASE}job/?q=a")) == ["a"]


@pytest.mark.parametrize(
    "query",
    [
        "job/",
        "job/?p=5",
        "job/?state=available",
        "job/?state=available&queue=old",
        "job/?state=completed",
        "job/?state=archived",
        "job/?state=scheduled",
        "job/?state=running",
        "job/?state=quarantined",
        "archivedjob/",
    ],
)
def test_a_page_of_a_deep_table_reads_no_more_than_its_bound(query, now, site, monkeypatch):
    # The worst order: what is asked for is the oldest, behind all that is newer.
    load(
        Backlog(count=12_000, prefix="a", queue="old", partitions=3, payloads=False),
        Backlog(count=12_000, prefix="b", state=State.ARCHIVED, payloads=False),
        Backlog(count=12_000, prefix="c", state=State.SCHEDULED, payloads=False),
        Backlog(count=20, prefix="d", state=State.RUNNING, payloads=False),
        Backlog(count=12_000, prefix="e", state=State.COMPLETED, payloads=False),
    )
    monkeypatch.setattr(BoundedPaginator, "bound", 500)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")

    with watched() as watch:
        assert site.get(BASE + query).status_code == 200

    jobs = [statement for statement in watch.statements if "headgate_django_job" in statement.sql]
    assert len(jobs) >= 3
    for statement in jobs:
        assert statement.indexes, statement.plan
        assert statement.rows <= 1_100, statement.plan
        assert statement.touched < 10_000, statement.plan


def test_bulk_operations_are_not_one_long_transaction_under_atomic_requests():
    from django.urls import resolve

    for path in (f"{BASE}job/", f"{BASE}job/operate/redrive/", f"{BASE}archivedjob/", f"{BASE}quarantine/"):
        assert resolve(path).func._non_atomic_requests == {"default"}
