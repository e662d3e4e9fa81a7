"""``@job(atomic=True)``: the handler's effects and the end of its run are one transaction."""

from __future__ import annotations

import contextlib
import logging
import threading

import pytest
from django.db import IntegrityError, connection, transaction

from headgate_django import Skip
from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import Event, State
from headgate_django.gate.admit import Gate
from headgate_django.jobs.context import CancelReason, Context
from headgate_django.lifecycle.reclaim import reclaim
from headgate_django.models import Attempt, Job
from headgate_django.worker import hygiene, runner
from tests.sample.models import Run
from tests.worker.performing import claim_of, failure, fine, perform, settle

pytestmark = pytest.mark.django_db(transaction=True)


def effect(name: str = "effect") -> None:
    Run.objects.create(name=name, job_id="j")


def state(claim) -> str:
    return Job.objects.get(pk=claim.id).state


def test_the_work_and_the_ack_are_stored_together(now):
    seen = []

    def works() -> None:
        effect()
        seen.append(connection.in_atomic_block)

    claim = claim_of(works, atomic=True)

    [outcome] = perform(claim)

    assert (outcome.event, outcome.acked, seen) == (Event.SUCCEED, True, [True])
    assert (state(claim), Run.objects.count()) == (State.COMPLETED, 1)


def test_nothing_of_a_run_is_visible_before_its_end(now):
    entered, leave = threading.Event(), threading.Event()

    def waits() -> None:
        effect()
        entered.set()
        assert leave.wait(60)

    claim = claim_of(waits, atomic=True)
    running = threading.Thread(target=perform, args=[claim])
    running.start()
    assert entered.wait(60)
    during = (state(claim), Run.objects.count())
    leave.set()
    running.join()

    assert during == (State.RUNNING, 0)
    assert (state(claim), Run.objects.count()) == (State.COMPLETED, 1)


@pytest.mark.parametrize(
    ("error", "event"), [(ValueError("boom"), Event.RETRY), (Skip("no"), Event.SKIP), (SystemExit(3), Event.RETRY)]
)
def test_whatever_is_raised_undoes_the_work_and_is_judged_as_ever(error, event, now):
    def breaks() -> None:
        effect()
        raise error

    claim = claim_of(breaks, atomic=True)

    [outcome] = perform(claim)

    assert (outcome.event, outcome.acked, state(claim), Run.objects.count()) == (event, False, State.RUNNING, 0)


def test_a_run_that_lost_its_lease_leaves_nothing_and_the_next_one_writes_once(now, caplog):
    def works() -> None:
        effect()

    claim = claim_of(works, atomic=True)
    now.advance(minutes=5)
    assert reclaim() == 1
    now.advance(minutes=5)
    [again] = Gate("w2", queues={"*": 1}).admit(1)

    [late] = perform(claim)
    after_late = (state(claim), Run.objects.count())
    [outcome] = perform(again)

    assert (late.acked, after_late) == (True, (State.RUNNING, 0))
    assert f"job {claim.id}: its lease was lost" in caplog.text
    assert (outcome.acked, state(claim), Run.objects.count()) == (True, State.COMPLETED, 1)


def swallow_a_database_error() -> None:
    effect()
    with contextlib.suppress(IntegrityError):
        Run.objects.create(pk=Run.objects.get().pk, name="twice", job_id="j")


def leave_a_block_open() -> None:
    effect()
    transaction.atomic().__enter__()


def close_the_connection() -> None:
    effect()
    connection.close()


def close_the_driver_s_connection() -> None:
    effect()
    connection.connection.close()


def mark_for_rollback() -> None:
    effect()
    transaction.set_rollback(True)


@pytest.mark.parametrize(
    "mess", [swallow_a_database_error, leave_a_block_open, close_the_connection, mark_for_rollback]
)
def test_a_transaction_that_cannot_be_committed_is_a_recorded_failure(mess, now):
    claim, following = claim_of(mess, atomic=True), claim_of(fine)

    outcome, after = perform(claim, following)

    assert (outcome.event, failure(outcome)[0], outcome.acked) == (Event.RETRY, "TransactionLeft", False)
    assert settle(claim, outcome).state == State.RETRYABLE
    assert (Run.objects.count(), after.event) == (0, Event.SUCCEED)


def test_a_driver_s_connection_closed_inside_is_a_recorded_failure(now):
    claim, following = claim_of(close_the_driver_s_connection, atomic=True), claim_of(fine)

    outcome, after = perform(claim, following)

    assert (outcome.event, outcome.acked) == (Event.RETRY, False)
    assert settle(claim, outcome).state == State.RETRYABLE
    assert (Run.objects.count(), after.event) == (0, Event.SUCCEED)


def test_a_deferred_constraint_that_fails_at_the_commit_is_a_recorded_failure(now):
    def refers_to_nothing() -> None:
        effect()
        Attempt.objects.create(
            job_id="nobody", number=1, started_at_ms=1, finished_at_ms=1, outcome=Event.RETRY.value
        )

    claim, following = claim_of(refers_to_nothing, atomic=True), claim_of(fine)

    outcome, after = perform(claim, following)

    assert (outcome.event, failure(outcome)[0], outcome.acked) == (Event.RETRY, "IntegrityError", False)
    assert settle(claim, outcome).state == State.RETRYABLE
    assert (Run.objects.count(), after.event) == (0, Event.SUCCEED)


@pytest.mark.parametrize("error", [ValueError("after"), SystemExit(1)])
def test_a_callback_that_raises_after_the_commit_leaves_the_job_completed(error, now, caplog):
    def breaks() -> None:
        raise error

    def registers() -> None:
        effect()
        transaction.on_commit(breaks)

    claim, following = claim_of(registers, atomic=True), claim_of(fine)

    outcome, after = perform(claim, following)

    assert (outcome.event, outcome.acked, state(claim)) == (Event.SUCCEED, True, State.COMPLETED)
    assert (Run.objects.count(), after.event) == (1, Event.SUCCEED)
    assert "a callback after its commit raised" in caplog.text


def test_a_success_counts_although_its_time_was_up(now):
    claim = claim_of(effect, atomic=True)

    [outcome] = perform(claim, cancel=CancelReason.TIMEOUT)

    assert (outcome.acked, state(claim)) == (True, State.COMPLETED)


def test_a_job_enqueued_by_a_run_that_fails_is_not_stored(now):
    def enqueues() -> None:
        from tests.sample.jobs import ok

        ok.enqueue(1)
        raise ValueError

    claim = claim_of(enqueues, atomic=True)

    perform(claim)

    assert Job.objects.count() == 1


def test_a_job_without_retention_is_gone_with_its_ack(now):
    claim = claim_of(effect, atomic=True, retention=0)

    [outcome] = perform(claim)

    assert (outcome.acked, Job.objects.count(), Run.objects.count()) == (True, 0, 1)


def test_its_logs_and_its_weight_are_stored_with_it(now, settings):
    settings.HEADGATE = {"KEEP_ATTEMPTS": "all"}

    def talks(context: Context) -> None:
        logging.getLogger("shop").warning("half way")
        context.report_weight(3)

    claim = claim_of(talks, atomic=True)

    [outcome] = perform(claim)

    assert outcome.actual_weight == 3
    assert "WARNING shop: half way" in Attempt.objects.get(job_id=claim.id).logs


@pytest.mark.django_db(transaction=False)
def test_inside_a_test_case_it_is_a_savepoint_and_the_connection_stays(now):
    connection_before = connection.connection
    claim, broken = claim_of(effect, atomic=True), claim_of(mark_for_rollback, atomic=True)

    outcomes: list[Outcome] = []
    for one in (claim, broken):
        hygiene.before_job()
        outcomes.append(runner.run(one, Context(one), "default"))
        hygiene.after_job()

    assert [outcome.acked for outcome in outcomes] == [True, False]
    assert (state(claim), state(broken), Run.objects.count()) == (State.COMPLETED, State.RUNNING, 1)
    assert connection.connection is connection_before
