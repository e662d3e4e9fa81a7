"""A caller's id is a promise: the same id and content is stored once, other content is a conflict."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from headgate_django.core.envelope import Envelope
from headgate_django.core.states import State
from headgate_django.exceptions import IdConflict, Quarantined
from headgate_django.lifecycle.cancel import discard
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.lifecycle.evict import evict
from headgate_django.models import Job, Payload
from tests.support.builders import EnvelopeFactory, in_state, queued, running
from tests.support.locks import Running, held, together, wait_until_blocked

pytestmark = pytest.mark.django_db
committing = pytest.mark.django_db(transaction=True)
racing = pytest.mark.skipif(
    os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="SQLite has one writer: there is nothing to race"
)

MINE = EnvelopeFactory(id="order-42", arguments={"order": 42})


def rows() -> list[dict[str, Any]]:
    return list(Job.objects.order_by("pk").values())


def test_the_same_id_and_content_returns_the_job_as_it_stands_and_writes_nothing(now):
    first = enqueue([MINE])[0]
    before = rows()
    now.advance(seconds=5)

    with CaptureQueriesContext(connection) as queries:
        [again] = enqueue([replace(MINE, priority=9, delay_ms=5)])

    assert (again.pk, again.priority, again.enqueued_at_ms) == (first.pk, 0, first.enqueued_at_ms)
    assert rows() == before
    assert not [query for query in queries if query["sql"].startswith(("INSERT", "UPDATE"))]


def test_a_replay_returns_a_running_job_untouched(now):
    job, claim = running(id="order-42", arguments={"order": 42})

    [again] = enqueue([replace(MINE, queue=job.queue)])

    assert (again.state, again.fence, again.lease_id) == (State.RUNNING, 1, claim.lease_id)


@pytest.mark.parametrize(
    "other",
    [{"payload": b"\x80"}, {"kind": "sample:other"}, {"queue": "elsewhere"}],
    ids=["payload", "kind", "queue"],
)
@pytest.mark.parametrize("state", [State.AVAILABLE, State.ARCHIVED])
def test_the_same_id_with_other_content_is_a_conflict(now, state, other):
    job = in_state(state, id="order-42", arguments={"order": 42})
    before = rows()
    same = replace(MINE, queue=job.queue)

    with pytest.raises(IdConflict, match="order-42") as caught:
        enqueue([EnvelopeFactory(), replace(same, **other)])

    assert caught.value.job_id == "order-42"
    assert rows() == before


def test_an_id_twice_in_one_batch_is_a_conflict_before_any_statement(django_assert_num_queries):
    with django_assert_num_queries(0), pytest.raises(IdConflict, match="order-42"):
        enqueue([MINE, MINE])


def test_a_batch_mixes_new_jobs_and_replays_in_order(now):
    enqueue([MINE])
    others = EnvelopeFactory.build_batch(2)

    jobs = enqueue([others[0], MINE, others[1]])

    assert jobs[1].pk == "order-42"
    assert Job.objects.count() == Payload.objects.count() == 3


def test_a_conflict_leaves_the_callers_transaction_usable(now):
    enqueue([MINE])

    with transaction.atomic():
        with pytest.raises(IdConflict):
            enqueue([replace(MINE, payload=b"\x80")])
        queued()

    assert Job.objects.count() == 2


def test_an_id_is_free_again_once_its_job_is_gone(now):
    in_state(State.ARCHIVED, id="evicted")
    now.advance(days=8)
    assert evict() == 1
    in_state(State.ARCHIVED, id="discarded")
    assert discard(Job.objects.all()) == 1

    for job_id in ("evicted", "discarded"):
        assert queued(id=job_id, arguments={"other": "content"}).pk == job_id


def test_a_replay_of_quarantined_content_is_still_a_replay(now):
    # The job exists, so the promise "stored once" holds; only new jobs of poisonous content are refused.
    job = in_state(State.QUARANTINED, id="poison", arguments={"value": 1})
    envelope = EnvelopeFactory(id="poison", arguments={"value": 1}, queue=job.queue)

    assert enqueue([envelope])[0].state == State.QUARANTINED
    with pytest.raises(Quarantined):
        enqueue([replace(envelope, id="fresh")])


@pytest.mark.parametrize("job_id", ["now", "quarantine", "queue", "0", "1", "NULL", "%s", "a'b", "x" * 255])
def test_no_id_is_mistaken_for_anything_else(now, job_id):
    envelope = EnvelopeFactory(id=job_id)

    assert enqueue([envelope])[0].pk == enqueue([envelope])[0].pk == job_id
    assert Job.objects.count() == 1


@racing
@committing
def test_of_two_transactions_with_one_id_the_second_waits_and_gets_the_job_of_the_first():
    with held(lambda: enqueue([MINE])) as commit:
        second = Running(lambda: enqueue([MINE]))
        wait_until_blocked(second)
        commit()

    assert second.result()[0].pk == "order-42"
    assert Job.objects.count() == Payload.objects.count() == 1


@racing
@committing
def test_of_two_transactions_with_one_id_and_other_content_the_second_is_refused():
    with held(lambda: enqueue([MINE])) as commit:
        second = Running(lambda: enqueue([EnvelopeFactory(), replace(MINE, payload=b"\x80")]))
        wait_until_blocked(second)
        commit()

    with pytest.raises(IdConflict, match="order-42"):
        second.result()
    assert [bytes(payload.data) for payload in Payload.objects.all()] == [MINE.payload]


@racing
@committing
def test_the_second_stores_the_job_itself_when_the_first_rolls_back():
    with held(lambda: enqueue([MINE])):
        second = Running(lambda: enqueue([MINE]))
        wait_until_blocked(second)

    assert second.result()[0].pk == "order-42"
    assert Job.objects.count() == Payload.objects.count() == 1


@racing
@committing
def test_inside_the_callers_transaction_a_lost_race_undoes_only_the_enqueue():
    def caller() -> str:
        with transaction.atomic():
            queued(id="mine-alone")
            return enqueue([EnvelopeFactory(id="other"), MINE])[1].pk

    with held(lambda: enqueue([MINE])) as commit:
        second = Running(caller)
        wait_until_blocked(second)
        commit()

    assert second.result() == "order-42"
    assert set(Job.objects.values_list("pk", flat=True)) == {"order-42", "mine-alone", "other"}


@racing
@committing
def test_a_job_that_is_deleted_while_it_is_replayed_is_stored_anew(now):
    job = in_state(State.ARCHIVED, id="order-42", arguments={"order": 42})
    fetched = []

    def delete_before_the_read(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith('SELECT "headgate_django_job"') and not fetched:
            fetched.append(Running(lambda: discard(Job.objects.filter(pk=job.pk))).result())
        return execute(sql, *rest)

    with connection.execute_wrapper(delete_before_the_read):
        [stored] = enqueue([replace(MINE, queue=job.queue)])

    assert fetched == [1]
    assert (stored.pk, stored.state) == ("order-42", State.AVAILABLE)
    assert Job.objects.get().state == State.AVAILABLE


@racing
@committing
def test_two_batches_with_the_same_ids_in_other_order_never_wait_for_each_other_in_a_circle():
    batch = [EnvelopeFactory(id=name, arguments={"name": name}) for name in "amz"]

    def produce(envelopes: list[Envelope]) -> set[str]:
        with transaction.atomic():  # inside it, a deadlock would not be repeated
            return {job.pk for job in enqueue(envelopes)}

    with held(lambda: enqueue(batch[1:2])):
        first = Running(lambda: produce(batch))
        wait_until_blocked(first)
        second = Running(lambda: produce(batch[::-1]))
        wait_until_blocked(second)

    assert first.result() == second.result() == set("amz")
    assert Job.objects.count() == Payload.objects.count() == 3


@committing
def test_many_producers_with_one_id_store_one_job():
    answers = together(*[lambda: enqueue([MINE])[0].pk] * 8)

    assert answers == ["order-42"] * 8
    assert Job.objects.count() == Payload.objects.count() == 1
