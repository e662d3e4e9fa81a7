"""Handlers that leave a transaction open or broken, or a connection closed: a stated end, and a clean next job."""

from __future__ import annotations

import contextlib

import pytest
from asgiref.sync import sync_to_async
from django.db import IntegrityError, connection, connections, transaction
from django.db.utils import DatabaseError

from headgate_django.core.states import Event, State
from headgate_django.jobs.context import CancelReason, Context
from headgate_django.models import Attempt, Job
from headgate_django.worker import hygiene, runner
from tests.sample.models import Run
from tests.worker.performing import claim_of, failure, fine, perform, perform_async, settle

pytestmark = pytest.mark.django_db(transaction=True)


def effect() -> None:
    Run.objects.create(name="effect", job_id="j")


def statement(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def leave_a_block_open() -> None:
    transaction.atomic().__enter__()
    effect()


def leave_autocommit_off() -> None:
    transaction.set_autocommit(False)
    effect()


def leave_a_raw_transaction_open() -> None:
    connection.ensure_connection()
    statement("BEGIN")
    effect()


def swallow_an_error_inside_a_block() -> None:
    transaction.atomic().__enter__()
    with contextlib.suppress(DatabaseError):
        statement("SELECT nonsense")


def close_inside_a_block() -> None:
    transaction.atomic().__enter__()
    effect()
    connection.close()


LEFT = [
    (leave_a_block_open, "an atomic block was left open"),
    (leave_autocommit_off, "autocommit was left off"),
    (leave_a_raw_transaction_open, "a transaction was left open"),
    (swallow_an_error_inside_a_block, "an atomic block was left open"),
    (close_inside_a_block, "an atomic block was left open"),
]


@pytest.mark.parametrize(("mess", "words"), LEFT)
def test_a_transaction_that_is_left_is_a_recorded_failure_and_is_undone(mess, words, now):
    claim, following = claim_of(mess), claim_of(fine)

    outcome, after = perform(claim, following)

    assert failure(outcome) == ("TransactionLeft", f"connection 'default': {words}")
    job = settle(claim, outcome)
    assert (job.state, job.attempt, job.error_class.rsplit(".")[-1]) == (State.RETRYABLE, 1, "TransactionLeft")
    assert (Run.objects.count(), after.event) == (0, Event.SUCCEED)


@pytest.mark.parametrize("mess", [mess for mess, _ in LEFT])
def test_a_handler_that_raises_out_of_its_transaction_fails_with_its_own_error(mess, now):
    def raises() -> None:
        mess()
        raise KeyError("mine")

    claim, following = claim_of(raises), claim_of(fine)

    outcome, after = perform(claim, following)

    assert (failure(outcome)[0], after.event) == ("KeyError", Event.SUCCEED)
    assert Run.objects.count() == 0


def close() -> None:
    effect()
    connection.close()


def close_all() -> None:
    effect()
    connections.close_all()


def close_the_driver_s_connection() -> None:
    effect()
    connection.connection.close()


@pytest.mark.parametrize("mess", [close, close_all, close_the_driver_s_connection])
def test_a_closed_connection_is_no_failure_and_is_replaced(mess, now):
    claim, following = claim_of(mess), claim_of(fine)

    outcome, after = perform(claim, following)

    assert (outcome.event, after.event, Run.objects.count()) == (Event.SUCCEED, Event.SUCCEED, 1)


def test_an_error_swallowed_outside_a_transaction_is_no_failure(now):
    def swallows() -> None:
        with contextlib.suppress(DatabaseError):
            statement("SELECT nonsense")
        effect()

    claim, following = claim_of(swallows), claim_of(fine)

    outcome, after = perform(claim, following)

    assert (outcome.event, after.event, Run.objects.count()) == (Event.SUCCEED, Event.SUCCEED, 1)


def test_a_deferred_constraint_of_the_handler_s_own_block_is_its_failure(now):
    def refers_to_nothing() -> None:
        with transaction.atomic():
            Attempt.objects.create(
                job_id="nobody", number=1, started_at_ms=1, finished_at_ms=1, outcome=Event.RETRY.value
            )

    claim, following = claim_of(refers_to_nothing), claim_of(fine)

    outcome, after = perform(claim, following)

    assert (failure(outcome)[0], after.event) == ("IntegrityError", Event.SUCCEED)


def test_a_callback_that_raises_after_the_handler_s_own_commit_is_its_failure(now):
    def registers() -> None:
        with transaction.atomic():
            effect()
            transaction.on_commit(lambda: 1 / 0)

    claim, following = claim_of(registers), claim_of(fine)

    outcome, after = perform(claim, following)

    assert (failure(outcome)[0], after.event, Run.objects.count()) == ("ZeroDivisionError", Event.SUCCEED, 1)


def test_an_asynchronous_handler_that_leaves_a_transaction_is_recorded_too(now):
    async def leaves() -> None:
        await sync_to_async(leave_a_block_open)()

    claim = claim_of(leaves)

    assert failure(perform_async(claim)) == (
        "TransactionLeft",
        "connection 'default': an atomic block was left open",
    )
    assert Run.objects.count() == 0


def test_a_transaction_left_by_a_run_whose_time_was_up_is_a_timeout(now):
    claim, following = claim_of(leave_a_block_open, timeout=5), claim_of(fine)

    [outcome] = perform(claim, cancel=CancelReason.TIMEOUT)

    assert failure(outcome)[0] == "TimeoutError"
    assert perform(following)[0].event is Event.SUCCEED


@pytest.mark.django_db(transaction=False)
@pytest.mark.parametrize("mess", [fine, leave_a_block_open])
def test_inside_a_test_case_the_connection_and_its_transaction_stay(mess, now):
    before = connection.connection
    blocks = len(connection.atomic_blocks)
    claim = claim_of(mess)

    hygiene.before_job()
    outcome = runner.run(claim, Context(claim))
    hygiene.after_job()
    stays = (connection.connection is before, connection.in_atomic_block, Job.objects.count())
    for block in connection.atomic_blocks[blocks:]:
        block.__exit__(None, None, None)

    assert outcome.event is (Event.SUCCEED if mess is fine else Event.RETRY)
    assert stays == (True, True, 1)


def test_an_integrity_error_caught_around_its_own_block_is_no_failure(now):
    def copes() -> None:
        effect()
        with contextlib.suppress(IntegrityError), transaction.atomic():
            Run.objects.create(pk=Run.objects.get().pk, name="twice", job_id="j")

    assert perform(claim_of(copes))[0].event is Event.SUCCEED


def test_an_integrity_error_caught_around_a_block_inside_an_atomic_handler_is_no_failure(now):
    def copes() -> None:
        effect()
        with contextlib.suppress(IntegrityError), transaction.atomic():
            Run.objects.create(pk=Run.objects.get().pk, name="twice", job_id="j")

    [outcome] = perform(claim_of(copes, atomic=True))

    assert (outcome.event, outcome.acked, Run.objects.count()) == (Event.SUCCEED, True, 1)
