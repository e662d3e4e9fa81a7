"""Many workers at once: each job is claimed once, whatever the others hold."""

from __future__ import annotations

import os
import threading
from collections import Counter
from typing import Any

import pytest
from django.db import connection, transaction

from headgate_django.core.states import State
from headgate_django.gate.admit import Gate
from headgate_django.models import Job
from tests.support.backlog import Backlog, load
from tests.support.builders import queued
from tests.support.locks import Running, held, together

pytestmark = pytest.mark.django_db(transaction=True)

DATABASE = os.environ.get("HEADGATE_TEST_DB", "sqlite")
FORMS = [True, False] if DATABASE == "postgres" else [True]
on_postgres = pytest.mark.skipif(DATABASE != "postgres", reason="SQLite locks the database, not rows")
on_sqlite = pytest.mark.skipif(DATABASE != "sqlite", reason="a lock on the whole database is SQLite's")

JOBS, WORKERS, BATCH = 2_000, 8, 10


def drain(worker_id: str, portable: bool) -> list[tuple[str, int]]:
    gate = Gate(worker_id, portable=portable)
    claimed: list[tuple[str, int]] = []
    empty = 0
    while empty < 2:  # one empty answer may mean that others hold what is left
        claims = gate.admit(BATCH)
        claimed += [(claim.id, claim.fence) for claim in claims]
        empty = 0 if claims else empty + 1
    return claimed


@pytest.mark.parametrize("portable", FORMS, ids=lambda portable: "portable" if portable else "own form")
@pytest.mark.parametrize("partitions", [1, 20])
def test_eight_workers_claim_each_of_two_thousand_jobs_once(portable: bool, partitions: int):
    load(Backlog(count=JOBS, partitions=partitions, partition="p"))

    answers = together(*(lambda name=f"w{number}": drain(name, portable) for number in range(WORKERS)))

    claims = Counter(claim for answer in answers for claim in answer)
    assert len(claims) == JOBS
    assert set(claims.values()) == {1}
    assert {fence for _, fence in claims} == {1}
    assert Job.objects.filter(state=State.RUNNING).count() == JOBS


@on_postgres
def test_two_workers_at_once_share_a_stream_without_waiting():
    load(Backlog(count=20))

    with held(lambda: Gate("w1").admit(8)):
        second = Gate("w2").admit(8)

    assert len(second) == 8


@on_postgres
def test_a_row_locked_by_another_transaction_is_passed_over():
    locked, free = queued(priority=9), queued()

    with held(lambda: Job.objects.select_for_update().get(pk=locked.pk)):
        claims = Gate("w1").admit(2)

    assert [claim.id for claim in claims] == [free.id]


@on_postgres
def test_a_due_row_locked_by_another_transaction_is_passed_over(now):
    locked, free = queued(delay_ms=1_000), queued(delay_ms=1_000)
    now.advance(seconds=1)

    with held(lambda: Job.objects.select_for_update().get(pk=locked.pk)):
        claims = Gate("w1").admit(2)

    assert [claim.id for claim in claims] == [free.id]


@on_postgres
def test_an_admit_sees_only_what_is_committed():
    committed = queued()

    with held(lambda: queued(id="uncommitted")) as commit:
        before = Gate("w1").admit(5)
        commit()
    after = Gate("w1").admit(5)

    assert [claim.id for claim in before] == [committed.id]
    assert [claim.id for claim in after] == ["uncommitted"]


@on_sqlite
@pytest.mark.parametrize("mode", [None, "DEFERRED", "IMMEDIATE"])
def test_an_admit_waits_for_the_writer_and_then_sees_its_jobs(mode: str | None):
    first = queued()
    begins = threading.Event()

    def prepare() -> None:
        connection.ensure_connection()
        connection.transaction_mode = mode
        connection.execute_wrappers.append(tell)

    def tell(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("BEGIN"):
            begins.set()
        return execute(sql, params, many, context)

    with held(lambda: queued(id="zz")) as commit:
        admitting = Running(lambda: Gate("w1").admit(5), prepare)
        assert begins.wait(60)
        commit()

    assert [claim.id for claim in admitting.result()] == [first.id, "zz"]


@on_sqlite
def test_the_first_admit_of_a_new_connection_waits_for_the_writer():
    job = queued()

    def admit() -> list[Any]:
        connection.close()
        return Gate("w1").admit(1)

    with held(lambda: Job.objects.filter(pk=job.pk).update(priority=5)) as commit:
        admitting = Running(admit)
        commit()

    assert [claim.id for claim in admitting.result()] == [job.id]


def test_jobs_of_a_transaction_that_rolls_back_are_never_admitted():
    with transaction.atomic():
        queued()
        transaction.set_rollback(True)

    assert Gate("w1").admit(5) == []
