"""The hot statements, as they are executed, go along their indexes, whatever the planner knows of the table."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest
from django.contrib.auth.models import User
from django.db import connection

from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import Event, State
from headgate_django.gate.admit import Gate
from headgate_django.gate.explain import explain
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.evict import evict
from headgate_django.lifecycle.reclaim import claim_of, reclaim
from headgate_django.lifecycle.renew import renew
from headgate_django.models import Job, Worker
from tests.support.backlog import Backlog, load
from tests.support.plans import Statement, Watch, watched

POSTGRES = os.environ.get("HEADGATE_TEST_DB") == "postgres"
PHASES = ["no statistics", "fresh statistics", "stale statistics"]
MANY = 20_000

KEY = "headgate_django_job_pkey" if POSTGRES else "sqlite_autoindex_headgate_django_job_1"
READY, DUE, LEASED = "headgate_job_ready", "headgate_job_due", "headgate_job_leased"
TERMINAL, EVICT = "headgate_job_terminal", "headgate_job_evict"
DEAD_LETTERS = '"progress_at_ms" FROM "headgate_django_job" WHERE ("headgate_django_job"."state" = '


@dataclass(frozen=True)
class Plan:
    """What the plan of the statement that contains ``marker`` must be."""

    marker: str
    index: str
    may_sort_unknown: bool = False
    """A sweep or a page, not a step of the gate: it may sort what it finds until the table is analyzed."""
    sorts_its_own: bool = False
    """Sorts the few rows that it is given, to lock them in the order of their ids."""
    reads_all: bool = False
    """Reads its partial index from end to end, on purpose."""

    def problems(self, watch: Watch, phase: str) -> list[str]:
        statement = watch.one(self.marker)
        found = []
        if self.index not in statement.indexes:
            found.append(f"not along {self.index}")
        if not self.reads_all and statement.scanned & {"headgate_django_job", "job", "headgate_django_payload"}:
            found.append("reads the whole table")
        unknown = phase == PHASES[0] and self.may_sort_unknown
        if statement.sorts and not (unknown or self.reads_all or self.sorts_its_own):
            found.append("sorts")
        return [f"{self.marker}: {problem}\n{statement.plan}" for problem in found]


GATE = [
    Plan("AND scheduled_at_ms <= %s", DUE),
    Plan("SET state = 'available'", KEY),
    Plan("WITH RECURSIVE found", READY),
    Plan("GROUP BY queue, partition_key", LEASED, reads_all=True),
    Plan("AS poison", READY),
    Plan("SET state = 'running'", KEY),
    Plan(
        "FROM headgate_django_payload",
        "headgate_django_payload_pkey" if POSTGRES else "sqlite_autoindex_headgate_django_payload_1",
    ),
]
OWN_STREAMS = Plan("WITH RECURSIVE hop", READY)
PORTABLE_STREAMS = Plan(">= (%s, %s, %s)", READY)
VERBS = [
    Plan("WITH held", KEY, sorts_its_own=True),
    Plan("UPDATE headgate_django_job\nSET state = settled.state", KEY, sorts_its_own=True),
    Plan("lease_expires_at_ms <=", LEASED),
    Plan("finalized_at_ms + retention_ms <=", EVICT),
    Plan(DEAD_LETTERS, TERMINAL, may_sort_unknown=True),
    Plan("AND priority > %s", READY),
    Plan("AND (scheduled_at_ms, id) < (%s, %s)", READY),
]  # fmt: skip


def fill(size: int, now_ms: int, phase: str) -> None:
    """``size`` waiting jobs, and of the others as many as make a planner err."""
    empty_table()
    finished = {"at_ms": now_ms - 10**10, "retention_ms": 10**9}
    load(
        Backlog(count=size // 4, prefix="archived", state=State.ARCHIVED, **finished),
        Backlog(count=size // 4, prefix="completed", state=State.COMPLETED, **finished),
    )
    if phase == "stale statistics":
        run("ANALYZE")
    load(
        Backlog(count=size, queues=2, queue="q", partitions=5, partition="p"),
        Backlog(count=size // 4, prefix="later", state=State.SCHEDULED, at_ms=now_ms + 10**9),
        Backlog(count=size // 4, prefix="due", state=State.RETRYABLE, at_ms=now_ms - 10**9),
        Backlog(count=1_000, prefix="running", queue="q1", state=State.RUNNING, at_ms=now_ms),
        Backlog(count=20, prefix="lost", queue="q1", state=State.RUNNING, at_ms=now_ms - 10**12 - 30),
    )
    if phase == "fresh statistics":
        run("ANALYZE")


def run(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


@pytest.mark.parametrize("phase", PHASES)
def test_every_step_of_the_gate_goes_along_its_index(now, phase: str):
    fill(MANY, now.at_ms, phase)

    with watched() as own:
        assert len(Gate("w1", queues={"*": 1}).admit(10)) == 10
    with watched() as portable:
        assert len(Gate("w1", queues={"*": 1}, portable=True).admit(10)) == 10

    plans = [(plan, watch) for plan in GATE for watch in (own, portable)]
    plans += [(PORTABLE_STREAMS, portable), (OWN_STREAMS if POSTGRES else PORTABLE_STREAMS, own)]
    assert [problem for plan, watch in plans for problem in plan.problems(watch, phase)] == []


@pytest.mark.parametrize("phase", PHASES)
def test_every_verb_sweep_and_page_goes_along_its_index(now, client, phase: str):
    fill(MANY, now.at_ms, phase)
    Worker.objects.beat("w1", hostname="h", pid=1, version="1", queues={"*": 1}, capacity=1)
    client.force_login(User.objects.create_superuser("root"))
    claims = [
        claim_of(job) for job in Job.objects.filter(id__in=[f"running{1_000_000_000 + n}" for n in range(10)])
    ]
    last = Job.objects.get(id=f"b{1_000_000_000 + MANY - 1}")

    with watched() as watch:
        assert renew(claims, 30_000) == []
        assert ack([(claim, Outcome(event=Event.RETRY)) for claim in claims]) == []
        assert reclaim() == 20
        assert evict() == 500
        assert client.get("/admin/headgate_django/archivedjob/").status_code == 200
        assert explain(last).position == 1_001

    assert [problem for plan in VERBS for problem in plan.problems(watch, phase)] == []


def test_what_an_admit_touches_does_not_grow_with_the_backlog(now):
    empty_table()
    load(Backlog(count=500, partitions=5, partition="p"))
    small = three_rounds()
    load(Backlog(count=MANY, prefix="more", partitions=5, partition="p"))

    assert three_rounds().touched <= small.touched * 1.5


def test_what_an_admit_touches_does_not_grow_with_finished_and_later_jobs(now):
    empty_table()
    load(Backlog(count=500, partitions=5, partition="p"))
    small = three_rounds()
    load(
        Backlog(count=MANY, prefix="history", state=State.COMPLETED, at_ms=now.at_ms),
        Backlog(count=MANY, prefix="future", state=State.SCHEDULED, at_ms=now.at_ms + 10**9),
        Backlog(count=MANY, prefix="aside", state=State.PENDING),
    )

    assert three_rounds().touched <= small.touched * 1.5


def test_an_idle_admit_touches_next_to_nothing_beside_much_that_cannot_run(now):
    empty_table()
    load(
        Backlog(count=MANY, prefix="history", state=State.COMPLETED, at_ms=now.at_ms),
        Backlog(count=MANY, prefix="future", state=State.SCHEDULED, at_ms=now.at_ms + 10**9),
    )

    with watched() as watch:
        assert Gate("w1", queues={"*": 1}).admit(10) == []

    assert watch.touched <= (20 if POSTGRES else 200)


def test_a_partition_of_many_rate_classes_is_drawn_little_beyond_its_share(now):
    load(Backlog(count=MANY, rate_classes=100))

    with watched() as watch:
        assert len(Gate("w1").admit(100)) == 100

    assert drawn(watch) <= 2_000


def empty_table() -> None:
    if POSTGRES:  # without the pages that the transactions of other tests left behind
        run("TRUNCATE headgate_django_job CASCADE")


def three_rounds() -> Watch:
    gate = Gate("w1", queues={"*": 1})
    with watched() as watch:
        for _ in range(3):
            claims = gate.admit(10)
            assert len(claims) == 10
            assert ack([(claim, Outcome(event=Event.SUCCEED)) for claim in claims]) == []
    return watch


def drawn(watch: Watch) -> int:
    draws: list[Statement] = [statement for statement in watch.statements if "AS poison" in statement.sql]
    return sum(statement.rows if POSTGRES else statement.touched // STEPS_PER_ROW for statement in draws)


STEPS_PER_ROW = 22
"""At least so many steps of SQLite's virtual machine for one drawn row."""
