"""Whatever a handler raises ends as a stored outcome, bounded, and the next job runs on the same thread."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from headgate_django import Interrupted
from headgate_django.core.outcomes import Failure
from headgate_django.core.screening import DEADLINE
from headgate_django.core.states import Event, State
from headgate_django.jobs.context import CancelReason
from headgate_django.models import Attempt
from tests.worker.performing import claim_of, failure, fine, perform, perform_async, settle

pytestmark = pytest.mark.django_db(transaction=True)


class Own(BaseException):
    """Not an Exception."""


class Unpicklable(Exception):
    def __init__(self) -> None:
        self.lock = threading.Lock()
        super().__init__("cannot travel")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


NamedBadly = type("NamedBadly", (Exception,), {"__qualname__": "a\0b\ud800" * 100, "__module__": "x\0"})


def nested(depth: int) -> BaseException:
    error: BaseException = ValueError("innermost")
    for _ in range(depth):
        error = ExceptionGroup("g", [error])  # type: ignore[list-item]
    return error


def chained() -> BaseException:
    error: BaseException = ValueError("first")
    for number in range(5_000):
        following = ValueError(number)
        following.__cause__ = error
        error = following
    return error


ERRORS: dict[str, Callable[[], BaseException]] = {
    "exit": lambda: SystemExit(),
    "exit 0": lambda: SystemExit(0),
    "exit 3": lambda: SystemExit(3),
    "exit with a message": lambda: SystemExit("message"),
    "keyboard interrupt": lambda: KeyboardInterrupt(),
    "generator exit": lambda: GeneratorExit(),
    "cancelled by itself": lambda: asyncio.CancelledError("mine"),
    "interrupted by itself": lambda: Interrupted("mine"),
    "own base exception": lambda: Own("x"),
    "stop iteration": lambda: StopIteration(1),
    "memory error": lambda: MemoryError(),
    "cannot be pickled": lambda: Unpicklable(),
    "cannot be printed": lambda: Unprintable(),
    "badly named": lambda: NamedBadly("x"),
    "NUL": lambda: ValueError("a\0b"),
    "surrogate": lambda: ValueError("lone \ud800"),
    "group of 10,000": lambda: ExceptionGroup("many", [ValueError(str(n)) for n in range(10_000)]),
    "group with an interrupt": lambda: BaseExceptionGroup("g", [KeyboardInterrupt(), ValueError("x")]),
    "group in a group": lambda: nested(3),
    "group 2,000 deep": lambda: nested(2_000),
    "chain of 5,000": chained,
    "nothing to say": lambda: ValueError(),
    "only newlines": lambda: ValueError("\n" * 1_000_000),
    "10 MB": lambda: ValueError("x" * 10_000_000),
    "100 MB": lambda: ValueError("🎈" * 25_000_000),
}


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_is_stored_and_the_thread_goes_on(name, now):
    def raises() -> None:
        raise ERRORS[name]()

    claim, following = claim_of(raises), claim_of(fine)

    outcome, after = perform(claim, following)

    job = settle(claim, outcome)
    stored = Attempt.objects.get(job_id=claim.id)
    assert (outcome.event, job.state, job.attempt) == (Event.RETRY, State.RETRYABLE, 1)
    assert stored.message
    assert stored.error_class
    assert len(stored.message) + len(stored.traceback) < 25_000
    assert after.event is Event.SUCCEED


@pytest.mark.parametrize("name", ["exit 0", "keyboard interrupt", "generator exit", "cancelled by itself", "NUL"])
def test_an_asynchronous_handler_may_raise_the_same(name, now):
    async def raises() -> None:
        await asyncio.sleep(0)
        raise ERRORS[name]()

    claim = claim_of(raises)

    outcome = perform_async(claim)

    assert (outcome.event, settle(claim, outcome).attempt) == (Event.RETRY, 1)


def test_exit_with_nothing_is_a_failure_and_no_success(now):
    def leaves() -> None:
        sys.exit()

    assert failure(perform(claim_of(leaves))[0]) == ("SystemExit", "SystemExit")


def test_the_members_of_a_group_are_stored_and_a_group_matches_when_all_do(now):
    group = ExceptionGroup("both", [ConnectionResetError("one"), ExceptionGroup("in", [ConnectionError("two")])])

    def raises() -> None:
        raise group

    claim = claim_of(raises, retry_on=ConnectionError)

    [outcome] = perform(claim)

    settle(claim, outcome)
    assert outcome.event is Event.RETRY
    assert "ConnectionResetError: one" in Attempt.objects.get(job_id=claim.id).traceback
    assert "ConnectionError: two" in Attempt.objects.get(job_id=claim.id).traceback


def test_a_recursion_without_end_is_a_failure(now):
    def recurses() -> None:
        recurses()

    claim, following = claim_of(recurses), claim_of(fine)

    outcome, after = perform(claim, following)

    assert (failure(outcome)[0], settle(claim, outcome).state) == ("RecursionError", State.RETRYABLE)
    assert after.event is Event.SUCCEED


class Forgetful(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        raise RuntimeError("no")


class Treacherous(Exception, metaclass=Forgetful):
    """Cannot even be compared with."""


@pytest.mark.parametrize(
    "declared",
    [
        {"backoff": lambda error, attempt: sys.exit()},
        {"backoff": lambda error, attempt: "soon"},
        {"skip_on": Treacherous},
    ],
)
def test_a_declaration_that_breaks_leaves_the_failure(declared, now):
    def raises() -> None:
        raise ValueError("mine")

    claim, following = claim_of(raises, **declared), claim_of(fine)

    outcome, after = perform(claim, following)

    assert (outcome.event, settle(claim, outcome).attempt) == (Event.RETRY, 1)
    assert after.event is Event.SUCCEED


def test_an_upcaster_that_exits_is_an_outcome_too(now):
    def current() -> None:
        pass

    claim = claim_of(current)
    from headgate_django.jobs import registry

    handler = registry.find(claim.kind)
    handler.schema_version = 2
    handler.upcasters[1] = lambda arguments: sys.exit(1)

    assert failure(perform(claim)[0])[0] == "SystemExit"


def interrupted() -> None:
    raise Interrupted("time")


def wraps() -> None:
    try:
        raise Interrupted("time")
    except Interrupted as error:
        raise ValueError("cleaning up failed") from error


@pytest.mark.parametrize("function", [interrupted, wraps])
@pytest.mark.parametrize("declared", [{}, {"skip_on": ValueError}, {"retry_on": KeyError}])
def test_a_timeout_is_a_timeout_whatever_was_raised_and_whatever_is_declared(function, declared, now):
    claim = claim_of(function, timeout=5, **declared)

    [outcome] = perform(claim, cancel=CancelReason.TIMEOUT)

    assert outcome.event is Event.RETRY
    assert failure(outcome) == ("TimeoutError", "attempt timed out after 5000 ms")
    assert settle(claim, outcome).attempt == 1


def test_the_backoff_is_asked_about_a_timeout(now):
    asked = []

    def backoff(error: BaseException, attempt: int) -> float:
        asked.append(type(error))
        return 9

    claim = claim_of(interrupted, timeout=5, backoff=backoff)

    [outcome] = perform(claim, cancel=CancelReason.TIMEOUT)

    assert (outcome.delay_ms, asked) == (9_000, [TimeoutError])


def test_a_deadline_that_passes_while_it_runs_archives_without_an_attempt(now):
    claim = claim_of(interrupted, deadline=60)

    [outcome] = perform(claim, cancel=CancelReason.DEADLINE)

    job = settle(claim, outcome)
    assert outcome.event is Event.EXPIRE
    assert failure(outcome) == (DEADLINE[0], "deadline exceeded while the job ran")
    assert (job.state, job.attempt, job.error_class) == (State.ARCHIVED, 0, DEADLINE[0])


@pytest.mark.parametrize("reason", CancelReason)
def test_a_handler_that_returns_has_succeeded_whatever_it_was_asked(reason, now):
    [outcome] = perform(claim_of(fine), cancel=reason)

    assert outcome.event is Event.SUCCEED


def test_a_run_that_lost_its_lease_has_an_outcome_all_the_same(now):
    [outcome] = perform(claim_of(interrupted, retry_on=KeyError), cancel=CancelReason.LEASE_LOST)

    assert outcome.event is Event.RETRY


def test_a_failure_holds_nothing_but_text(now):
    def raises() -> None:
        raise Unpicklable

    [outcome] = perform(claim_of(raises))

    assert isinstance(outcome.failure, Failure)
    assert {type(getattr(outcome.failure, name)) for name in Failure.__slots__} == {str}
