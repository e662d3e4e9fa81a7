"""Runs on threads of their own, cleaned between jobs as the executors do it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async

from headgate_django import job
from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.core.states import Event
from headgate_django.gate.admit import Gate
from headgate_django.jobs.context import Context
from headgate_django.lifecycle.ack import ack
from headgate_django.models import Job
from headgate_django.worker import hygiene, runner

FINE = Event.SUCCEED


def claim_of(function: Callable[..., Any], _arguments: dict[str, Any] | None = None, **declared: Any) -> Claim:
    """A running job of a handler that is declared here."""
    handler = job(f"test:{function.__name__}", **declared)(function)
    stored = handler.enqueue(**(_arguments or {}))
    claims = Gate("w1", queues={"*": 1}).admit(1)
    assert [claim.id for claim in claims] == [stored.pk]
    return claims[0]


def perform(*claims: Claim, cancel: Any = None, before: Callable[[], Any] | None = None) -> list[Outcome]:
    """The outcomes of jobs that run one after the other on one thread; ``before`` is called on it first."""
    outcomes: list[Outcome] = []

    def work() -> None:
        if before:
            before()
        for claim in claims:
            context = Context(claim)
            if cancel:
                context.cancel(cancel)
            hygiene.before_job()
            outcomes.append(runner.run(claim, context, "default"))
            hygiene.after_job()
        hygiene.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return outcomes


def perform_async(claim: Claim) -> Outcome:
    """The outcome of an asynchronous handler, on a loop in a thread of its own."""
    outcomes: list[Outcome] = []

    async def run() -> None:
        async with ThreadSensitiveContext():
            try:
                outcomes.append(await runner.arun(claim, Context(claim)))
            finally:
                await sync_to_async(hygiene.close_all)()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    thread.join()
    return outcomes[0]


def settle(claim: Claim, outcome: Outcome) -> Job:
    """Ack as the runtime does; the job as it stands then."""
    if not outcome.acked:
        assert ack([(claim, outcome)]) == []
    return Job.objects.get(pk=claim.id)


def failure(outcome: Outcome) -> tuple[str, str]:
    """Class, without its module, and message of what was recorded."""
    assert outcome.failure is not None
    return outcome.failure.error_class.rsplit(".", 1)[-1], outcome.failure.message


def fine() -> None:
    """The next job: it needs the database."""
    Job.objects.count()
