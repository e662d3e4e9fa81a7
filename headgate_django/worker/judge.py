"""From what a handler raised to the outcome of its run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headgate_django import exceptions
from headgate_django.core.durations import to_ms
from headgate_django.core.outcomes import Claim, Failure, Outcome
from headgate_django.core.screening import DEADLINE
from headgate_django.core.states import Event
from headgate_django.jobs.context import CancelReason, Context
from headgate_django.jobs.handler import ExceptionTypes, Handler
from headgate_django.worker.failure import describe

logger = logging.getLogger("headgate_django.worker")

LATE = Failure(error_class=DEADLINE[0], message="deadline exceeded while the job ran", group=DEADLINE[2])


def judge(handler: Handler[..., Any], claim: Claim, context: Context, error: BaseException) -> Outcome:
    """The outcome of a run that raised."""
    if context.cancel_reason == CancelReason.SHUTDOWN:
        return Outcome(event=Event.INTERRUPT, failure=reason_of(error, "given back by a worker that stopped"))
    deliberate = isinstance(error, exceptions.Outcome)
    if not deliberate and context.cancelled and (outcome := _cut_short(handler, claim, context, error)):
        return outcome
    for kind, verdict in _VERDICTS.items():
        if isinstance(error, kind):
            return verdict(handler, claim, error)
    if matches(error, handler.skip_on) or (handler.retry_on and not matches(error, handler.retry_on)):
        return Outcome(event=Event.SKIP, failure=describe(error))
    return _retry(handler, claim, error, describe(error), None)


def matches(error: BaseException, types: ExceptionTypes) -> bool:
    """Whether the exception is of the types; a group is when every exception inside it is."""
    unseen = [error]
    while unseen:  # not recursive: a group may be nested deeper than Python's stack
        error = unseen.pop()
        if isinstance(error, types):
            continue
        if not isinstance(error, BaseExceptionGroup):
            return False
        unseen += error.exceptions
    return True


def _cut_short(handler: Handler[..., Any], claim: Claim, context: Context, error: BaseException) -> Outcome | None:
    if context.cancel_reason == CancelReason.TIMEOUT:
        return _timed_out(handler, claim, error)
    if context.cancel_reason == CancelReason.DEADLINE:
        return Outcome(event=Event.EXPIRE, failure=replace(LATE, traceback=describe(error).traceback))
    if isinstance(error, exceptions.Interrupted):
        return Outcome(event=Event.RETRY, failure=describe(error))
    return None


def _timed_out(handler: Handler[..., Any], claim: Claim, error: BaseException) -> Outcome:
    message = f"attempt timed out after {claim.timeout_ms} ms"
    failure = Failure(
        error_class="TimeoutError", message=message, traceback=describe(error).traceback, group="timeout"
    )
    return _retry(handler, claim, TimeoutError(message), failure, None)


def reason_of(error: BaseException, message: str = "") -> Failure:
    """What to store of an exception that says why, rather than where."""
    failure = describe(error)
    # The traceback of a raised outcome says nothing that its reason does not, unless it has a cause.
    deliberate = isinstance(error, exceptions.Outcome) and error.__cause__ is None
    return replace(failure, message=message or failure.message, traceback="" if deliberate else failure.traceback)


def _retry(
    handler: Handler[..., Any],
    claim: Claim,
    error: BaseException,
    failure: Failure,
    delay: exceptions.Duration | None,
) -> Outcome:
    if delay is None and handler.backoff is not None:
        try:
            delay = handler.backoff(error, claim.attempt + 1)
            if delay is None:
                return Outcome(event=Event.RETRY, give_up=True, failure=failure)
        except BaseException:
            logger.exception("backoff of %s raised; the default is used", claim.kind)
            delay = None
    return Outcome(event=Event.RETRY, delay_ms=_delay_ms(delay, claim), failure=failure)


def _delay_ms(delay: exceptions.Duration | None, claim: Claim) -> int | None:
    if delay is None:
        return None
    try:
        return to_ms(delay, "delay", minimum=0)
    except exceptions.InvalidJob as error:
        logger.error("%s: %s; the default backoff is used", claim.kind, error)
        return None


def _postpone(event: Event, attribute: str) -> Callable[[Handler[..., Any], Claim, Any], Outcome]:
    def verdict(handler: Handler[..., Any], claim: Claim, error: Any) -> Outcome:
        try:
            delay_ms = to_ms(getattr(error, attribute), attribute)
        except exceptions.InvalidJob as bug:
            # A snooze of nothing would spin for ever: it is the handler's bug and costs an attempt.
            return _retry(handler, claim, bug, describe(bug), None)
        hold_class_ms = delay_ms if claim.rate_class and getattr(error, "hold_class", False) else 0
        failure = reason_of(error) if getattr(error, "reason", "") else None
        return Outcome(event=event, delay_ms=delay_ms, hold_class_ms=hold_class_ms, failure=failure)

    return verdict


_VERDICTS: dict[type[BaseException], Callable[[Handler[..., Any], Claim, Any], Outcome]] = {
    exceptions.Retry: lambda handler, claim, error: _retry(handler, claim, error, reason_of(error), error.delay),
    exceptions.Skip: lambda handler, claim, error: Outcome(event=Event.SKIP, failure=reason_of(error)),
    exceptions.Revoke: lambda handler, claim, error: Outcome(event=Event.REVOKE),
    exceptions.Snooze: _postpone(Event.SNOOZE, "delay"),
    exceptions.RateLimited: _postpone(Event.RATE_LIMIT, "retry_after"),
    exceptions.Undecodable: lambda handler, claim, error: Outcome(
        event=Event.UNDECODABLE, failure=reason_of(error)
    ),
}
