"""What enqueue stores, and that it belongs to the caller's transaction."""

from __future__ import annotations

import enum
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from ulid import ULID

from headgate_django.core import codec
from headgate_django.core.envelope import Envelope
from headgate_django.core.states import State
from headgate_django.exceptions import Quarantined
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.models import Job, Payload
from tests.support.builders import EnvelopeFactory, quarantined, queued

pytestmark = pytest.mark.django_db

FULL = {
    "kind": "sample:ok",
    "payload": codec.encode({"value": "ä\0"}),
    "id": "order/42 ü",
    "schema_version": 3,
    "queue": "mail",
    "partition_key": "tenant-7",
    "rate_class": "smtp",
    "sticky_worker": "w1",
    "priority": -5,
    "weight": 9,
    "timeout_ms": 1_500,
    "retention_ms": 86_400_000,
    "max_attempts": 4,
    "tags": ("zeta", "alpha"),
    "headers": {"trace": "日本", "b": ""},
}


class Queues(enum.StrEnum):
    MAIL = "mail"


def stored(job: Job) -> dict[str, Any]:
    return Job.objects.filter(pk=job.pk).values().get()


def test_every_field_of_the_envelope_is_stored(now):
    [job] = enqueue([Envelope(**FULL)])

    row = stored(job)
    for name in set(FULL) - {"payload", "tags", "headers"}:
        assert row[name] == FULL[name], name
    assert row["tags"] == ["alpha", "zeta"]
    assert row["fingerprint"] == Envelope(**FULL).fingerprint
    payload = Payload.objects.get(pk=job.pk)
    assert (bytes(payload.data), payload.headers) == (FULL["payload"], FULL["headers"])


def test_a_new_job_has_no_history(now):
    row = stored(queued())

    assert (row["state"], row["enqueued_at_ms"], row["scheduled_at_ms"]) == ("available", now.at_ms, now.at_ms)
    counters = ("attempt", "crash_attempt", "interruptions", "fence", "deadline_ms")
    assert [row[name] for name in counters] == [0] * len(counters)
    assert [row[name] for name in ("lease_id", "worker_id", "error_class", "error_summary")] == [""] * 4
    assert row["finalized_at_ms"] is row["attempted_at_ms"] is row["lease_expires_at_ms"] is None


def test_the_returned_job_equals_the_stored_row(now):
    [job] = enqueue([Envelope(**FULL)])

    assert {name: getattr(job, name) for name in stored(job)} == stored(job)
    assert (job._state.adding, job._state.db) == (False, "default")


def test_a_fresh_id_is_a_ulid():
    assert str(ULID.from_str(queued().pk)) == Job.objects.get().pk


@pytest.mark.parametrize(
    ("options", "state", "offset"),
    [
        ({}, State.AVAILABLE, 0),
        ({"delay_ms": 0}, State.AVAILABLE, 0),
        ({"delay_ms": 1}, State.SCHEDULED, 1),
        ({"pending": True}, State.PENDING, 0),
    ],
)
def test_a_delay_schedules_and_pending_waits(now, options, state, offset):
    row = stored(queued(**options))

    assert (row["state"], row["scheduled_at_ms"]) == (state, now.at_ms + offset)


@pytest.mark.parametrize(
    ("offset", "state"), [(-1_000, State.AVAILABLE), (0, State.AVAILABLE), (1, State.SCHEDULED)]
)
def test_a_job_is_scheduled_only_for_a_time_to_come(now, offset, state):
    row = stored(queued(scheduled_at_ms=now.at_ms + offset))

    assert (row["state"], row["scheduled_at_ms"]) == (state, now.at_ms + offset)


def test_a_deadline_is_an_instant_or_counts_from_the_enqueue(now):
    assert stored(queued(deadline_ms=now.at_ms + 7))["deadline_ms"] == now.at_ms + 7
    assert stored(queued(deadline_in_ms=9))["deadline_ms"] == now.at_ms + 9


def test_members_of_enumerations_are_stored_as_their_values(now):
    class Priority(enum.IntEnum):
        HIGH = 3

    job = queued(queue=Queues.MAIL, priority=Priority.HIGH)

    assert (stored(job)["queue"], stored(job)["priority"]) == ("mail", 3)
    assert [found.pk for found in Job.objects.filter(queue="mail")] == [job.pk]


def test_a_batch_is_stored_in_order(now):
    jobs = enqueue([EnvelopeFactory(priority=number) for number in range(100)])

    assert [job.priority for job in jobs] == list(range(100))
    assert [job.pk for job in jobs] == sorted(job.pk for job in jobs)
    assert Job.objects.count() == Payload.objects.count() == 100


def test_an_empty_batch_is_no_statement(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert enqueue([]) == []


def test_a_batch_may_hold_1000_jobs(now):
    jobs = enqueue([EnvelopeFactory() for _ in range(1_000)])

    assert len({job.pk for job in jobs}) == Job.objects.count() == 1_000


def test_the_same_content_twice_is_two_jobs(now):
    envelope = EnvelopeFactory()

    first, second = enqueue([envelope, envelope])

    assert first.pk != second.pk
    assert first.fingerprint == second.fingerprint


def statements(count: int) -> int:
    with CaptureQueriesContext(connection) as queries:
        enqueue([EnvelopeFactory() for _ in range(count)])
    return len(queries)


def test_the_number_of_statements_does_not_grow_with_the_batch(now, vendor):
    one = statements(1)

    assert one <= 4  # SQLite's write lock, what could refuse it, the job, its payload
    assert statements(500 if vendor == "postgresql" else 30) == one


def test_quarantined_content_is_refused_before_any_write(now):
    poison = quarantined(arguments={"value": "poison"})
    batch = [EnvelopeFactory(), EnvelopeFactory(arguments={"value": "poison"})]

    with CaptureQueriesContext(connection) as queries, pytest.raises(Quarantined) as caught:
        enqueue(batch)

    assert not [query for query in queries if "INSERT" in query["sql"]]

    assert (caught.value.fingerprint, caught.value.kind) == (poison.fingerprint, "sample:ok")
    assert Job.objects.count() == 1


def test_the_same_payload_under_another_kind_is_not_quarantined(now):
    quarantined(arguments={"value": "poison"})

    assert queued(kind="sample:other", arguments={"value": "poison"}).state == State.AVAILABLE


@pytest.mark.django_db(transaction=True)
def test_a_job_exists_exactly_if_its_transaction_committed():
    with transaction.atomic():
        outer = queued()
        with transaction.atomic():
            queued()
            transaction.set_rollback(True)
        with transaction.atomic():
            inner = queued()
    with transaction.atomic():
        queued()
        transaction.set_rollback(True)

    assert set(Job.objects.values_list("pk", flat=True)) == {outer.pk, inner.pk}
    assert set(Payload.objects.values_list("pk", flat=True)) == {outer.pk, inner.pk}


@pytest.mark.django_db(transaction=True)
def test_without_a_transaction_job_and_payload_are_still_one(vendor):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE headgate_django_payload RENAME TO headgate_django_payload_away")
    try:
        with pytest.raises(Exception, match="headgate_django_payload"):
            queued()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE headgate_django_payload_away RENAME TO headgate_django_payload")

    assert Job.objects.count() == 0
