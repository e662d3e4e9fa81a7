"""What a handler leaves behind does not reach the next one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone, translation

from headgate_django import enqueue_many
from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import Event
from headgate_django.models import Job
from headgate_django.models.store import fetch
from headgate_django.worker import hygiene
from headgate_django.worker.executors.threads import ThreadExecutor, perform_here
from headgate_django.worker.run import Results, Run
from tests.sample import jobs
from tests.support.locks import Running

pytestmark = pytest.mark.django_db(transaction=True)


def in_thread(*steps: Callable[[], Any]) -> list[Any]:
    """Run the steps on one thread, as successive handlers; what each returned or raised."""
    results: list[Any] = []

    def work() -> None:
        for step in steps:
            hygiene.before_job()
            try:
                results.append(step())
            except Exception as error:
                results.append(error)
            hygiene.after_job()
        hygiene.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return results


def query() -> int:
    return Job.objects.count()


def leave_atomic_open() -> None:
    transaction.atomic().__enter__()
    Job.objects.count()


def leave_autocommit_off() -> None:
    transaction.set_autocommit(False)


def leave_raw_transaction() -> None:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT 1")


def break_transaction() -> None:
    block = transaction.atomic()
    block.__enter__()
    with connection.cursor() as cursor:
        cursor.execute("SELECT nonsense")


def close_driver_connection() -> None:
    connection.ensure_connection()
    connection.connection.close()


def close_connection() -> None:
    connection.close()


@pytest.mark.parametrize(
    "mess",
    [
        leave_atomic_open,
        leave_autocommit_off,
        leave_raw_transaction,
        break_transaction,
        close_driver_connection,
        close_connection,
    ],
)
def test_a_broken_connection_is_replaced_before_the_next_job(mess):
    _, count, autocommit, atomic = in_thread(
        query, mess, query, transaction.get_autocommit, lambda: connection.in_atomic_block
    )[1:]

    assert (count, autocommit, atomic) == (0, True, False)


def test_language_and_time_zone_do_not_leak():
    def leak() -> None:
        translation.activate("de")
        timezone.activate("Asia/Tokyo")

    leaked = in_thread(leak, translation.get_language, timezone.get_current_timezone_name)

    assert leaked[1:] == ["en-us", "UTC"]


def test_queries_are_not_remembered(settings):
    settings.DEBUG = True

    remembered = in_thread(query, query, lambda: len(connection.queries))

    assert remembered[-1] == 0


def test_an_executor_puts_an_outcome_for_every_run_and_its_threads_end(admit):
    done = threading.Event()
    results = Results(done.set)
    executor = ThreadExecutor(3, results, lambda run: perform_here(run, "default"))
    enqueue_many([jobs.fails.envelope(str(n)) for n in range(3)])
    claims = admit(3)
    results.expect(3)
    for claim in claims:
        executor.submit(Run(claim))

    finished: list[tuple[Run, Outcome]] = []
    while len(finished) < 3:
        assert done.wait(30)
        done.clear()
        finished += results.take()

    assert {run.claim.id for run, _ in finished} == {claim.id for claim in claims}
    assert {outcome.event for _, outcome in finished} == {Event.RETRY}
    assert executor.close(30)


def test_a_connection_that_the_server_ended_while_the_thread_was_idle_is_not_met_by_the_next_job(vendor):
    if vendor == "sqlite":
        pytest.skip("SQLite has no server")

    def end_what_is_kept_open() -> None:
        connection.close()
        connection.settings_dict = {**connection.settings_dict, "CONN_MAX_AGE": None}
        query()
        pid = connection.connection.info.backend_pid
        Running(lambda: fetch("default", "SELECT pg_terminate_backend(%s, 10000)", [pid])).result()

    assert in_thread(end_what_is_kept_open, query) == [None, 0]
