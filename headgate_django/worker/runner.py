"""From claim to outcome: find the handler → decode and upcast → call with context → judge. No SQL, no threads."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import random
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async

from headgate_django.conf import config
from headgate_django.core import codec
from headgate_django.core.outcomes import NO_HANDLER, Claim, Failure, Outcome
from headgate_django.core.states import Event
from headgate_django.exceptions import Interrupted, TransactionLeft, Undecodable
from headgate_django.jobs import registry
from headgate_django.jobs.context import Context
from headgate_django.jobs.handler import CONTEXT, Handler
from headgate_django.jobs.upcast import upcast
from headgate_django.worker import hygiene
from headgate_django.worker.atomic import in_one_transaction
from headgate_django.worker.capture import capture
from headgate_django.worker.failure import describe
from headgate_django.worker.judge import judge as judge
from headgate_django.worker.judge import reason_of
from headgate_django.worker.surroundings import surroundings

logger = logging.getLogger("headgate_django.worker")

UNKNOWN_KIND_DELAY_MS = 30_000
SUCCESS = Outcome(event=Event.SUCCEED)


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
    except Undecodable as error:
        return Outcome(event=Event.UNDECODABLE, failure=reason_of(error))
    if handler.takes_context:
        arguments = {**arguments, CONTEXT: context}
    return Call(handler, arguments)


def run(claim: Claim, context: Context, using: str = "") -> Outcome:
    """Run a synchronous handler to its outcome. Whatever it raises, even SystemExit, becomes one.

    ``using`` is the queue's database, for a handler that is atomic: its outcome is acked when it has succeeded.
    """
    attempt = _Attempt(claim, context)
    try:
        # In a copy of the context, so that what the handler binds (a decimal context, a request id) ends with it.
        copy_context().run(_run, attempt, using)
    except BaseException as error:  # ours, or an interruption that came when the handler had ended already
        attempt.broke(error)
    return attempt.outcome


async def arun(claim: Claim, context: Context) -> Outcome:
    """Run an asynchronous handler to its outcome."""
    attempt = _Attempt(claim, context)
    try:
        await _arun(attempt)
    except BaseException as error:
        attempt.broke(error)
    return attempt.outcome


def is_async(claim: Claim) -> bool:
    """Whether the claim's handler runs on the event loop."""
    handler = registry.find(claim.kind)
    return handler is not None and handler.is_async


class _Attempt:
    """One run on its way to the outcome; the first outcome that it reaches is the one that stays."""

    def __init__(self, claim: Claim, context: Context) -> None:
        self.claim, self.context = claim, context
        self.log = capture(config().log_capture)
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome:
        """How it ended, with all that is to be stored."""
        assert self._outcome is not None
        return self.told(self._outcome)

    @property
    def who(self) -> str:
        """For messages."""
        return f"job {self.claim.id} ({self.claim.kind})"

    def ended(self, outcome: Outcome) -> None:
        """The outcome is known."""
        self._outcome = self._outcome or outcome

    def failed(self, handler: Handler[..., Any], error: BaseException) -> None:
        """The handler raised."""
        self.ended(judge(handler, self.claim, self.context, error))

    def broke(self, error: BaseException) -> None:
        """Something was raised outside the handler: by us, or because the run was to stop at that moment."""
        handler = registry.find(self.claim.kind)
        if handler and self.context.cancelled and isinstance(error, Interrupted | asyncio.CancelledError):
            self.failed(handler, error)
        if self._outcome is None:
            logger.error("%s could not be judged", self.who, exc_info=error)
            self._outcome = Outcome(event=Event.RETRY, failure=describe(error))

    def told(self, outcome: Outcome) -> Outcome:
        """The outcome with all that is to be stored of the run."""
        logs, weight = self.log.text, self.context.actual_weight
        return replace(outcome, logs=logs, actual_weight=weight) if logs or weight is not None else outcome


def _run(attempt: _Attempt, using: str) -> None:
    with surroundings.shared(attempt.who), attempt.log:
        call = prepare(attempt.claim, attempt.context)
        if isinstance(call, Outcome):
            attempt.ended(call)
            return
        try:
            attempt.ended(_outcome(call, attempt, using))
        except BaseException as error:
            attempt.failed(call.handler, error)


def _outcome(call: Call, attempt: _Attempt, using: str) -> Outcome:
    if call.handler.atomic:
        return in_one_transaction(partial(_perform, call), attempt.claim, lambda: attempt.told(SUCCESS), using)
    _perform(call)
    return SUCCESS


def _perform(call: Call) -> None:
    """Call the handler. Raises what it raises, and TransactionLeft for what it leaves behind."""
    outer = hygiene.open_blocks()
    process = os.getpid()
    try:
        result = call.handler.function(**call.arguments)
    finally:
        _end_copy(process)
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError(f"{call.handler.kind} returned a coroutine that nobody awaits; declare it async def")
    if left := hygiene.left_behind(outer):
        raise TransactionLeft(left)


async def _arun(attempt: _Attempt) -> None:
    with surroundings.shared(attempt.who), attempt.log:
        call = prepare(attempt.claim, attempt.context)
        if isinstance(call, Outcome):
            attempt.ended(call)
            return
        try:
            await _aperform(call)
            attempt.ended(SUCCESS)
        except BaseException as error:
            attempt.failed(call.handler, error)


async def _aperform(call: Call) -> None:
    process = os.getpid()
    try:
        await call.handler.function(**call.arguments)
    finally:
        _end_copy(process)
    try:
        left = await sync_to_async(hygiene.left_behind)()  # the handler's own database thread knows
    except asyncio.CancelledError:
        return  # it came too late: the handler had returned
    if left:
        raise TransactionLeft(left)


def _end_copy(process: int) -> None:
    # The handler forked, and this is its copy: it must touch neither the connections nor the outcome.
    if os.getpid() != process:
        os._exit(0)


def _decode(payload: bytes) -> dict[str, Any]:
    try:
        return codec.decode(payload)
    except ValueError as error:
        raise Undecodable(f"malformed payload: {error}") from error


def _check_arguments(handler: Handler[..., Any], arguments: dict[str, Any]) -> None:
    try:
        handler.signature.bind(**arguments)
    except TypeError as error:
        raise Undecodable(f"arguments do not fit {handler.__name__}: {error}") from error


def _unknown_kind(claim: Claim) -> Outcome:
    logger.warning("no handler is registered for kind %s; job %s waits", claim.kind, claim.id)
    delay = UNKNOWN_KIND_DELAY_MS + random.randrange(UNKNOWN_KIND_DELAY_MS // 10)
    failure = Failure(
        error_class=NO_HANDLER, message=f"no handler is registered for kind {claim.kind}", group="no-handler"
    )
    return Outcome(event=Event.SNOOZE, delay_ms=delay, failure=failure)
