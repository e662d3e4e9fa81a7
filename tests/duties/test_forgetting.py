"""What is forgotten is deleted around the rows that somebody else has locked: a duty waits for nobody."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import QuerySet

from headgate_django.duties import quarantine as duty
from headgate_django.duties.forget import forget_workers
from headgate_django.duties.quarantine import forget_old_suspects
from headgate_django.lifecycle.quarantine import clear
from headgate_django.models import RateBucket, RateBudget, RateClass, Worker, clock
from headgate_django.models.fleet import FORGET_MS
from headgate_django.models.quarantine import Suspect
from headgate_django.models.rates import IDLE_MS, forget_full
from headgate_django.models.store import limited
from tests.support.builders import running
from tests.support.locks import Running, held

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="SQLite has no locks on rows"),
]


def workers() -> tuple[QuerySet[Any], Callable[[], int]]:
    for number in range(3):
        Worker.objects.beat(f"w{number}", hostname="h", pid=1, version="1", queues={"*": 1}, capacity=1)
    Worker.objects.update(heartbeat_at_ms=clock.now_ms("default") - FORGET_MS - 1)
    return Worker.objects.all(), lambda: forget_workers(using="default")


def suspects() -> tuple[QuerySet[Any], Callable[[], int]]:
    old = clock.now_ms("default") - duty.FORGET_MS - 1
    for number in range(3):
        Suspect.objects.create(fingerprint=f"f{number}", seen_at_ms=old)
    return Suspect.objects.all(), lambda: forget_old_suspects(10, "default")


def buckets() -> tuple[QuerySet[Any], Callable[[], int]]:
    budget = RateBudget.objects.create(
        rate_class=RateClass.objects.create(name="c"), limit=60, window_ms=60_000, burst=60, per_partition=True
    )
    old = clock.now_ms("default") - 2 * IDLE_MS
    for number in range(3):
        RateBucket.objects.create(budget=budget, partition_key=f"p{number}", level=0, refilled_at_ms=old)
    return RateBucket.objects.all(), lambda: forget_full(limit=10, using="default")


@pytest.mark.parametrize("kind", [workers, suspects, buckets])
def test_a_row_that_somebody_else_holds_is_passed_over(now, kind: Callable[[], Any]):
    rows, forget = kind()
    in_use = rows.order_by("pk")[1].pk

    with (
        held(lambda: rows.select_for_update().get(pk=in_use)),
        limited("default", lock_ms=2_000, statement_ms=60_000),
    ):
        assert forget() == 2

    assert list(rows.values_list("pk", flat=True)) == [in_use]
    assert forget() == 1


def test_a_success_clears_only_the_suspects_that_it_has_locked(now):
    _, claim = running()
    claims = [replace(claim, suspect=fingerprint) for fingerprint in ("f1", "f2")]
    Suspect.objects.create(fingerprint="f2", seen_at_ms=now.at_ms)

    with ExitStack() as others:

        def interfere(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            if sql.startswith("DELETE"):
                # The content crashes once more at this moment, and whoever counts that may wait for the other row.
                Running(lambda: Suspect.objects.create(fingerprint="f1", seen_at_ms=now.at_ms)).result()
                others.enter_context(held(lambda: Suspect.objects.select_for_update().get(pk="f1")))
            return execute(sql, params, many, context)

        others.enter_context(limited("default", lock_ms=2_000, statement_ms=60_000))
        with transaction.atomic(), connection.execute_wrapper(interfere):
            clear(claims, "default")

    assert list(Suspect.objects.values_list("fingerprint", flat=True)) == ["f1"]
