"""From claim to outcome, without a database: find, decode, call, judge."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headgate_django import RateLimited, Retry, Revoke, Skip, Snooze, Undecodable
from headgate_django.core import codec
from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.core.states import Event
from headgate_django.jobs.context import CancelReason, Context
from headgate_django.jobs.handler import Handler
from headgate_django.jobs.options import Options
from headgate_django.worker import runner


def claim(kind: str = "sample:ok", arguments: dict[str, Any] | None = None, **changes: Any) -> Claim:
    columns: dict[str, Any] = {
        "id": "j1", "kind": kind, "schema_version": 1, "queue": "default", "partition_key": "", "rate_class": "",
        "lease_id": "l1", "fence": 1, "attempt": 0, "crash_attempt": 0, "interruptions": 0, "max_attempts": 3,
        "scheduled_at_ms": 0, "timeout_ms": 0, "deadline_ms": 0, "retention_ms": 1, "started_at_ms": 1,
        "worker_id": "w1", "payload": codec.encode(arguments or {}),
    }  # fmt: skip
    names = set(Claim.__slots__)
    return Claim(**{name: value for name, value in (columns | changes).items() if name in names})


def handler(function: Any, **options: Any) -> Handler[..., Any]:
    return Handler(function, kind="test:unregistered", options=Options(), **options)


def verdict(error: BaseException, context: Context | None = None, **options: Any) -> Outcome:
    one = claim(attempt=options.pop("attempt", 0), timeout_ms=options.pop("timeout_ms", 0))
    return runner.judge(handler(lambda: None, **options), one, context or Context(one), error)


def run(one: Claim) -> Outcome:
    return runner.run(one, Context(one))


def test_a_handler_that_returns_succeeds():
    assert run(claim(arguments={"value": 1})).event is Event.SUCCEED


@pytest.mark.parametrize(
    ("error", "event", "delay_ms"),
    [
        (Retry("later", delay=2), Event.RETRY, 2_000),
        (Retry("later", delay=0), Event.RETRY, 0),
        (Retry("later"), Event.RETRY, None),
        (Skip("no"), Event.SKIP, None),
        (Revoke(), Event.REVOKE, None),
        (Snooze(1.5), Event.SNOOZE, 1_500),
        (RateLimited(30), Event.RATE_LIMIT, 30_000),
        (Undecodable("cheese"), Event.UNDECODABLE, None),
        (ValueError("boom"), Event.RETRY, None),
        (SystemExit(0), Event.RETRY, None),
        (SystemExit("message"), Event.RETRY, None),
        (KeyboardInterrupt(), Event.RETRY, None),
        (GeneratorExit(), Event.RETRY, None),
        (asyncio.CancelledError(), Event.RETRY, None),
        (ExceptionGroup("g", [ValueError("a"), TypeError("b")]), Event.RETRY, None),
    ],
)
def test_each_exception_has_its_outcome(error, event, delay_ms):
    outcome = verdict(error)

    assert (outcome.event, outcome.delay_ms, outcome.give_up) == (event, delay_ms, False)


@pytest.mark.parametrize("delay", [0, -1, float("nan"), 0.0001, "soon", True])
def test_a_snooze_of_nothing_is_the_handlers_bug_and_costs_an_attempt(delay):
    outcome = verdict(Snooze(delay))

    assert outcome.event is Event.RETRY
    assert outcome.failure is not None
    assert "delay" in outcome.failure.message


@pytest.mark.parametrize("delay", [-1, float("inf"), "soon"])
def test_a_wrong_retry_delay_falls_back_to_the_backoff(delay):
    assert verdict(Retry("x", delay=delay)).delay_ms is None


def test_the_backoff_of_a_job_chooses_the_delay_and_none_gives_up():
    seen = []

    def backoff(error: BaseException, attempt: int) -> float | None:
        seen.append((type(error), attempt))
        return 7 if attempt < 3 else None

    assert verdict(ValueError(), backoff=backoff, attempt=1).delay_ms == 7_000
    assert verdict(ValueError(), backoff=backoff, attempt=2).give_up is True
    assert seen == [(ValueError, 2), (ValueError, 3)]


def test_a_backoff_that_raises_leaves_the_default_and_the_job_retryable():
    outcome = verdict(ValueError(), backoff=lambda error, attempt: 1 / 0)

    assert (outcome.event, outcome.delay_ms, outcome.give_up) == (Event.RETRY, None, False)


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (ConnectionResetError(), Event.RETRY),
        (ValueError(), Event.SKIP),
        (ExceptionGroup("g", [ConnectionError(), ConnectionError()]), Event.RETRY),
        (ExceptionGroup("g", [ConnectionError(), ValueError()]), Event.SKIP),
    ],
)
def test_retry_on_archives_everything_else_and_a_group_matches_when_all_members_do(error, event):
    assert verdict(error, retry_on=(ConnectionError,)).event is event


@pytest.mark.parametrize(("error", "event"), [(ValueError(), Event.SKIP), (TypeError(), Event.RETRY)])
def test_skip_on_archives_at_once(error, event):
    assert verdict(error, skip_on=(ValueError,)).event is event


def test_a_run_cut_short_by_a_shutdown_is_interrupted_whatever_it_raised():
    one = claim()
    context = Context(one)
    context.cancel(CancelReason.SHUTDOWN)

    assert verdict(ValueError("because cancelled"), context).event is Event.INTERRUPT


def test_a_timed_out_run_says_so():
    one = claim()
    context = Context(one)
    context.cancel(CancelReason.TIMEOUT)

    outcome = verdict(asyncio.CancelledError(), context, timeout_ms=1_500)

    assert outcome.event is Event.RETRY
    assert outcome.failure is not None
    assert (outcome.failure.error_class, outcome.failure.message) == (
        "TimeoutError",
        "attempt timed out after 1500 ms",
    )


def test_an_unknown_kind_is_snoozed_with_a_reason():
    outcome = run(claim(kind="nobody:knows"))

    assert outcome.event is Event.SNOOZE
    assert (outcome.delay_ms or 0) >= 30_000
    assert outcome.failure is not None
    assert "nobody:knows" in outcome.failure.message


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"payload": b"\xc1garbage"}, "malformed payload"),
        ({"payload": b""}, "malformed payload"),
        ({"payload": codec.encode({"valu": 1})}, "arguments do not fit"),
        ({"payload": codec.encode({"value": 1, "context": 2})}, "arguments do not fit"),
        ({"schema_version": 2}, "newer than this code"),
    ],
)
def test_what_cannot_be_called_is_undecodable_and_no_user_code_runs(changes, reason):
    outcome = run(claim(**changes))

    assert outcome.event is Event.UNDECODABLE
    assert outcome.failure is not None
    assert reason in outcome.failure.message


def test_old_arguments_go_through_every_upcaster():
    assert run(claim("sample:versioned", {"name": "Ada"}, schema_version=1)).event is Event.SUCCEED


def test_an_asynchronous_handler_is_awaited():
    seen = []

    async def call() -> Outcome:
        async def function() -> None:
            seen.append(1)
            raise Snooze(5)

        return runner.judge(handler(function), one, Context(one), await _raised(function()))

    one = claim()

    assert asyncio.run(call()).event is Event.SNOOZE
    assert seen == [1]


async def _raised(awaitable: Any) -> BaseException:
    try:
        await awaitable
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")
