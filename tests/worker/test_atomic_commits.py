"""``@job(atomic=True)`` whose transaction cannot be committed: who is charged for it."""

from __future__ import annotations

import pytest
from django.db import connection

from headgate_django.core.states import Event, State
from headgate_django.models import Job
from headgate_django.models.store import fetch
from tests.sample.models import Run
from tests.support.locks import Running, held
from tests.support.processes import wait_until
from tests.worker.performing import claim_of, perform, settle

pytestmark = pytest.mark.django_db(transaction=True)


def effect() -> None:
    Run.objects.create(name="effect", job_id="j")


def test_a_lock_in_the_way_of_the_ack_costs_no_attempt(vendor, now, monkeypatch):
    if vendor == "sqlite":  # which knows one lock: there the transaction cannot even begin
        monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", 0.02)

    def works() -> None:
        effect()
        if vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '20ms'")

    claim = claim_of(works, atomic=True, retry_on=KeyError, max_attempts=1)

    def lock() -> None:
        Job.objects.select_for_update().get(pk=claim.id)
        Run.objects.update(name="other")

    with held(lock):
        [outcome] = perform(claim)

    job = settle(claim, outcome)
    assert (job.state, job.attempt, Run.objects.count()) == (State.SCHEDULED, 0, 0)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no connection to lose")
def test_a_connection_lost_before_the_commit_costs_no_attempt(now):
    def works() -> None:
        effect()
        backends.append(connection.connection.info.backend_pid)

    def cut() -> None:
        waiting = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
        wait_until(lambda: backends and fetch("default", waiting, backends), "the ack waits for a lock")
        fetch("default", "SELECT pg_terminate_backend(%s, 10000)", backends)

    backends: list[int] = []
    claim = claim_of(works, atomic=True, max_attempts=1)

    with held(lambda: Job.objects.select_for_update().get(pk=claim.id)):
        cutting = Running(cut)
        [outcome] = perform(claim)
        cutting.result()

    job = settle(claim, outcome)
    assert (job.state, job.attempt, Run.objects.count()) == (State.SCHEDULED, 0, 0)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no such limit")
def test_a_handler_that_the_server_gives_up_while_it_idles_is_charged(now):
    def idles() -> None:
        effect()
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '20ms'")
        wait_until(lambda: not fetch_elsewhere(connection.connection.info.backend_pid), "the session is ended")

    claim = claim_of(idles, atomic=True)

    [outcome] = perform(claim)

    assert (outcome.event, settle(claim, outcome).attempt, Run.objects.count()) == (Event.RETRY, 1, 0)


def fetch_elsewhere(backend: int) -> list[tuple]:
    alive = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
    return Running(lambda: fetch("default", alive, [backend])).result()
