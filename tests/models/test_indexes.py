"""Each index has its query, and each sweep its index: no plan reads the history or the backlog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate_django.core.envelope import Envelope
from headgate_django.core.states import State
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.lifecycle.evict import evict
from headgate_django.lifecycle.reclaim import reclaim
from headgate_django.models import Job
from headgate_django.models.store import execute, is_postgres
from tests.support.plans import watched

pytestmark = pytest.mark.django_db

MANY = 2_000


@pytest.fixture
def crowded(now: Any) -> Any:
    """A table of jobs in every state: most waiting or finished long ago, few to be touched by a sweep."""
    batch = [Envelope(kind="sample:ok", payload=b"\x80", retention_ms=10**10)] * 500
    for _ in range(MANY // 500):
        enqueue(batch)
    ids = list(Job.objects.order_by("pk").values_list("pk", flat=True))
    ended = ", ".join(["%s"] * 1_200)
    execute(
        "default",
        f"UPDATE headgate_django_job SET state = 'completed', finalized_at_ms = %s WHERE id IN ({ended})",
        [now.at_ms, *ids[:1_200]],
    )
    put(ids[1_200:1_400], "state = 'running', lease_id = 'x', lease_expires_at_ms = %s", now.at_ms + 10**9)
    put(ids[1_400:1_600], "state = 'scheduled', scheduled_at_ms = %s", now.at_ms + 10**9)
    put(ids[1_600:1_603], "state = 'running', lease_id = 'x', lease_expires_at_ms = %s", now.at_ms - 1)
    put(ids[1_606:1_609], "state = 'archived', retention_ms = 1, finalized_at_ms = %s", now.at_ms - 2)
    execute("default", "ANALYZE headgate_django_job" if is_postgres("default") else "ANALYZE")
    return now


def put(ids: list[str], assignment: str, value: int) -> None:
    marks = ", ".join(["%s"] * len(ids))
    execute("default", f"UPDATE headgate_django_job SET {assignment} WHERE id IN ({marks})", [value, *ids])


SWEEPS: dict[str, Callable[[Any], int]] = {
    "headgate_job_leased": lambda now: reclaim(),
    "headgate_job_evict": lambda now: evict(),
}


@pytest.mark.parametrize("index", SWEEPS)
def test_a_sweep_finds_its_rows_by_its_index_and_reads_no_others(crowded, index):
    with watched() as watch:
        assert SWEEPS[index](crowded) == 3

    search = watch.one("LIMIT")
    assert index in search.indexes, search.plan
    assert all("headgate_django_job" not in statement.scanned for statement in watch.statements), [
        statement.plan for statement in watch.statements
    ]


@pytest.mark.parametrize("index", SWEEPS)
def test_a_sweep_with_nothing_to_do_is_one_probe(crowded, index):
    SWEEPS[index](crowded)

    with watched() as watch:
        assert SWEEPS[index](crowded) == 0

    on_jobs = [statement for statement in watch.statements if "headgate_django_job " in statement.sql]
    assert len(on_jobs) == 1


def test_a_page_of_dead_letters_is_read_from_the_terminal_index(crowded):
    with watched() as watch:
        list(Job.objects.in_state(State.ARCHIVED).order_by("-finalized_at_ms", "-pk")[:50])

    assert "headgate_job_terminal" in watch.statements[0].indexes, watch.statements[0].plan


def test_enqueue_and_strict_ids_never_scan_jobs(crowded):
    with watched() as watch:
        enqueue([Envelope(kind="sample:ok", payload=b"\x80", id=f"mine-{n}") for n in range(20)])

    assert all("headgate_django_job" not in statement.scanned for statement in watch.statements)


def test_every_index_of_jobs_is_named_in_a_plan_test():
    # Ready and due jobs are the gate's: their tests are beside it.
    # What counts a capped queue is in tests/lifecycle/test_queue_full.py.
    named = {*SWEEPS, "headgate_job_terminal", "headgate_job_ready", "headgate_job_due", "headgate_job_deferred"}

    assert {index.name for index in Job._meta.indexes} == named
