"""A project whose database option asks for a stricter isolation level."""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import connections, transaction

from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import Event, State
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.cancel import cancel
from headgate_django.models import Job
from headgate_django.models.store import fetch, write_transaction
from tests.support.backlog import Backlog, load
from tests.support.builders import running
from tests.support.locks import Running, held, wait_until_blocked

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="SQLite's transactions are always serializable"
    ),
]

LEVELS = ["READ_COMMITTED", "REPEATABLE_READ", "SERIALIZABLE"]
SUCCESS = Outcome(event=Event.SUCCEED)


def isolated(level: str) -> Callable[[], None]:
    """Give this thread a connection with OPTIONS["isolation_level"]."""

    def prepare() -> None:
        from psycopg import IsolationLevel

        connection = connections.create_connection("default")
        connection.settings_dict = copy.deepcopy(connections["default"].settings_dict)
        connection.settings_dict["OPTIONS"]["isolation_level"] = IsolationLevel[level]
        connections["default"] = connection

    return prepare


@pytest.mark.parametrize("level", LEVELS)
def test_our_own_transactions_are_read_committed(level: str):
    def look() -> list[str]:
        seen = []
        for begin in (transaction.atomic, write_transaction):
            with begin("default"):
                seen += fetch("default", "SHOW transaction_isolation")[0]
        return seen

    theirs, ours = Running(look, isolated(level)).result()

    assert theirs == level.lower().replace("_", " ")
    assert ours == "read committed"


@pytest.mark.parametrize("level", LEVELS)
def test_a_cancel_that_waited_for_a_row_sees_it_as_it_is_now(level: str):
    job, claim = running()

    with held(lambda: ack([(claim, SUCCESS)])) as commit:
        cancelling = Running(lambda: cancel(Job.objects.filter(pk=job.pk)), isolated(level))
        wait_until_blocked(cancelling)
        commit()

    assert cancelling.result() == 0


@pytest.mark.parametrize("level", LEVELS)
def test_an_ack_that_waited_for_a_row_holds(level: str):
    job, claim = running()

    with held(lambda: Job.objects.filter(pk=job.pk).update(priority=7)) as commit:
        acking = Running(lambda: ack([(claim, SUCCESS)]), isolated(level))
        wait_until_blocked(acking)
        commit()

    assert acking.result() == []
    job.refresh_from_db()
    assert (job.state, job.priority) == (State.COMPLETED, 7)


@pytest.mark.parametrize("level", LEVELS)
def test_four_workers_claim_each_job_once(level: str):
    load(Backlog(count=400, partitions=3, partition="p"))

    def drain(name: str) -> list[str]:
        gate, claimed = Gate(name), []
        while claims := gate.admit(7):
            assert not ack([(claim, SUCCESS) for claim in claims])
            claimed += [claim.id for claim in claims]
        return claimed

    workers = [Running(lambda name=f"w{number}": drain(name), isolated(level)) for number in range(4)]

    claims = Counter(claim for worker in workers for claim in worker.result())
    assert len(claims) == 400
    assert set(claims.values()) == {1}
