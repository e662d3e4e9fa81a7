"""From claim to outcome: find the handler → decode and upcast → call with context → judge. No SQL, no threads."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from headgate_django import exceptions
from headgate_django.core import codec
from headgate_django.core.durations import to_ms
from headgate_django.core.outcomes import NO_HANDLER, Claim, Failure, Outcome
from headgate_django.core.states import Event
from headgate_django.jobs import registry
from headgate_django.jobs.context import CancelReason, Context
from headgate_django.jobs.handler import CONTEXT, ExceptionTypes, Handler
from headgate_django.jobs.upcast import upcast
from headgate_django.worker.failure import describe

logger = logging.getLogger("headgate_django.worker")

UNKNOWN_KIND_DELAY_MS = 30_000


@dataclass(frozen=True, slots=True)
class Call:
    """A handler and the arguments it will be called with."""

    handler: Handler[..., Any]
    arguments: dict[str, Any]


def prepare(claim: Claim, context: Context) -> Call | Outcome:
    """The call that a claim stands for, or the outcome when it cannot be made; no user code but upcasters runs."""
    handler = registry.find(claim.kind)
    if handler is None:
        return _unknown_kind(claim)
    try:
        arguments = upcast(handler, _decode(claim.payload), claim.schema_version)
        _check_arguments(handler, arguments)
    except exceptions.Undecodable as error:
        return Outcome(event=Event.UNDECODABLE, failure=_reason(error))
    if handler.takes_context:
        arguments = {**arguments, CONTEXT: context}
    return Call(handler, arguments)


def run(claim: Claim, context: Context) -> Outcome:
    """Run a synchronous handler to its outcome. Whatever it raises, even SystemExit, becomes one."""
    call = prepare(claim, context)
    if isinstance(call, Outcome):
        return call
    try:
        call.handler.function(**call.arguments)
    except BaseException as error:
        return _weighed(judge(call.handler, claim, context, error), context)
    return _weighed(SUCCESS, context)


async def arun(claim: Claim, context: Context) -> Outcome:
    """Run an asynchronous handler to its outcome."""
    call = prepare(claim, context)
    if isinstance(call, Outcome):
        return call
    try:
        await call.handler.function(**call.arguments)
    except BaseException as error:
        return _weighed(judge(call.handler, claim, context, error), context)
    return _weighed(SUCCESS, context)


def _weighed(outcome: Outcome, context: Context) -> Outcome:
    return outcome if context.actual_weight is None else replace(outcome, actual_weight=context.actual_weight)


SUCCESS = Outcome(event=Event.SUCCEED)


def is_async(claim: Claim) -> bool:
    """Whether the claim's handler runs on the event loop."""
    handler = registry.find(claim.kind)
    return handler is not None and handler.is_async


def judge(handler: Handler[..., Any], claim: Claim, context: Context, error: BaseException) -> Outcome:
    """The outcome of a run that raised."""
    if context.cancel_reason == CancelReason.SHUTDOWN:
        return Outcome(event=Event.INTERRUPT, failure=_reason(error, "given back by a worker that stopped"))
    if context.cancel_reason == CancelReason.TIMEOUT and not isinstance(error, exceptions.Outcome):
        failure = Failure(
            error_class="TimeoutError",
            message=f"attempt timed out after {claim.timeout_ms} ms",
            traceback=describe(error).traceback,
            group="timeout",
        )
        return _retry(handler, claim, error, failure, None)
    for kind, verdict in _VERDICTS.items():
        if isinstance(error, kind):
            return verdict(handler, claim, error)
    if matches(error, handler.skip_on) or (handler.retry_on and not matches(error, handler.retry_on)):
        return Outcome(event=Event.SKIP, failure=describe(error))
    return _retry(handler, claim, error, describe(error), None)


def matches(error: BaseException, types: ExceptionTypes) -> bool:
    """Whether the exception is of the types; a group is when every exception inside it is."""
    if isinstance(error, BaseExceptionGroup):
        return isinstance(error, types) or all(matches(member, types) for member in error.exceptions)
    return isinstance(error, types)


def _decode(payload: bytes) -> dict[str, Any]:
    try:
        return codec.decode(payload)
    except ValueError as error:
        raise exceptions.Undecodable(f"malformed payload: {error}") from error


def _check_arguments(handler: Handler[..., Any], arguments: dict[str, Any]) -> None:
    try:
        handler.signature.bind(**arguments)
    except TypeError as error:
        raise exceptions.Undecodable(f"arguments do not fit {handler.__name__}: {error}") from error


def _unknown_kind(claim: Claim) -> Outcome:
    logger.warning("no handler is registered for kind %s; job %s waits", claim.kind, claim.id)
    delay = UNKNOWN_KIND_DELAY_MS + random.randrange(UNKNOWN_KIND_DELAY_MS // 10)
    failure = Failure(
        error_class=NO_HANDLER, message=f"no handler is registered for kind {claim.kind}", group="no-handler"
    )
    return Outcome(event=Event.SNOOZE, delay_ms=delay, failure=failure)


def _reason(error: BaseException, message: str = "") -> Failure:
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
        except Exception:
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
        failure = _reason(error) if error.reason else None
        return Outcome(event=event, delay_ms=delay_ms, hold_class_ms=hold_class_ms, failure=failure)

    return verdict


_VERDICTS: dict[type[BaseException], Callable[[Handler[..., Any], Claim, Any], Outcome]] = {
    exceptions.Retry: lambda handler, claim, error: _retry(handler, claim, error, _reason(error), error.delay),
    exceptions.Skip: lambda handler, claim, error: Outcome(event=Event.SKIP, failure=_reason(error)),
    exceptions.Revoke: lambda handler, claim, error: Outcome(event=Event.REVOKE),
    exceptions.Snooze: _postpone(Event.SNOOZE, "delay"),
    exceptions.RateLimited: _postpone(Event.RATE_LIMIT, "retry_after"),
    exceptions.Undecodable: lambda handler, claim, error: Outcome(event=Event.UNDECODABLE, failure=_reason(error)),
}
