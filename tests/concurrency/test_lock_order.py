"""Whoever locks several jobs takes them in the order of their ids, also over several statements."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.db import OperationalError, connection, models, transaction
from django.test.utils import CaptureQueriesContext

from headgate_django.core.outcomes import Claim, Outcome, Progress
from headgate_django.core.states import Event, State
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.cancel import cancel, discard
from headgate_django.lifecycle.progress import write_progress
from headgate_django.lifecycle.promote import promote
from headgate_django.lifecycle.reclaim import report_lost
from headgate_django.lifecycle.redrive import redrive
from headgate_django.lifecycle.renew import renew
from headgate_django.models import Job, RateBucket, RateBudget, RateClass
from headgate_django.models.store import execute
from tests.support.builders import BOOM, in_state, queued
from tests.support.locks import Running, held, wait_until_blocked

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="SQLite has no locks on rows"),
]


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        (cancel, State.RUNNING),
        (cancel, State.AVAILABLE),
        (promote, State.SCHEDULED),
        (redrive, State.ARCHIVED),
        (discard, State.COMPLETED),
    ],
)
def test_a_verb_over_a_selection_locks_its_jobs_by_one_statement(now, verb: Callable[..., int], state: State):
    # A second statement would also lock what has come into the selection since the first, with a lower id perhaps.
    jobs = [in_state(state) for _ in range(2)]
    selected = Job.objects.filter(pk__in=[job.pk for job in jobs])

    with CaptureQueriesContext(connection) as captured:
        assert verb(selected) == 2

    locking = [query["sql"] for query in captured if "FOR UPDATE" in query["sql"] and "_job" in query["sql"]]
    assert len(locking) == 1
    assert "ORDER BY" in locking[0]


def lower_and_higher(retentions: Sequence[int]) -> list[Claim]:
    for retention_ms in retentions:
        queued(retention_ms=retention_ms)
    claims = sorted(Gate("w1").admit(2), key=lambda claim: claim.id)
    # In the table the higher one comes first now, and the planner knows that there are only two.
    renew(claims[:1], 30_000)
    execute("default", "ANALYZE headgate_django_job")
    return claims


def test_progress_is_not_worth_a_wait(now):
    lower, higher = lower_and_higher((1_000, 1_000))

    with held(lambda: list(Job.objects.filter(pk=lower.id).select_for_update())):
        write_progress([(claim, Progress(1)) for claim in (higher, lower)], "default")

    assert dict(Job.objects.values_list("pk", "progress_done")) == {lower.id: 0, higher.id: 1}


def is_free(row: models.QuerySet) -> bool:
    try:
        with transaction.atomic():
            row.select_for_update(nowait=True).get()
    except OperationalError:
        return False
    return True


def acked(claims: Sequence[Claim]) -> Any:
    return ack([(claim, Outcome(event=Event.SUCCEED)) for claim in claims])


def lost(claims: Sequence[Claim]) -> Any:
    return report_lost([(claim, Outcome(event=Event.LOSE_LEASE, failure=BOOM)) for claim in claims])


def renewed(claims: Sequence[Claim]) -> Any:
    return renew(claims, 30_000)


@pytest.mark.parametrize("write", [acked, lost, renewed])
@pytest.mark.parametrize("retentions", [(0, 0), (0, 1_000), (1_000, 0), (1_000, 1_000)], ids=str)
def test_who_waits_for_a_job_holds_none_with_a_higher_id(
    now, retentions: tuple[int, int], write: Callable[[Sequence[Claim]], Any]
):
    # A job whose retention is 0 is deleted, another one updated: those are two statements.
    lower, higher = lower_and_higher(retentions)

    with held(lambda: list(Job.objects.filter(pk=lower.id).select_for_update())) as commit:
        writing = Running(lambda: write([higher, lower]))
        wait_until_blocked(writing)

        assert is_free(Job.objects.filter(pk=higher.id))

        commit()

    assert not writing.result() or write is lost


@pytest.mark.parametrize(
    "delete", [lambda: RateClass.objects.all().delete(), lambda: RateClass.objects.get().delete()]
)
def test_who_waits_to_delete_a_rate_class_holds_none_of_its_buckets(delete: Callable[[], Any]):
    row = RateClass.objects.create(name="api")
    budget = RateBudget.objects.create(rate_class=row, limit=1, window_ms=1_000, burst=1)
    RateBucket.objects.create(budget=budget, level=0, refilled_at_ms=1)

    with held(lambda: RateClass.objects.select_for_update().get()) as commit:
        deleting = Running(delete)
        wait_until_blocked(deleting)

        assert is_free(RateBucket.objects.all())

        commit()
    deleting.result()
    assert not RateBucket.objects.exists()
