"""Jobs in a given state, brought there by real verbs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import factory

from headgate_django.core import codec
from headgate_django.core.envelope import Envelope
from headgate_django.core.outcomes import Claim, Failure, Outcome
from headgate_django.core.states import Event, State
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.cancel import cancel
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.models import Job, Quarantine, clock

BOOM = Failure(error_class="ValueError", message="boom", traceback="Traceback …\nValueError: boom\n", group="g")


class EnvelopeFactory(factory.Factory):
    """An envelope with harmless defaults; ``arguments`` becomes the payload."""

    class Meta:
        model = Envelope

    class Params:
        arguments = factory.Sequence(lambda number: {"value": number})

    kind = "sample:ok"
    payload = factory.LazyAttribute(lambda envelope: codec.encode(envelope.arguments))
    retention_ms = 7 * 24 * 3600 * 1000


def queued(**options: Any) -> Job:
    """An available (or scheduled, or pending) job."""
    return enqueue([EnvelopeFactory(**options)])[0]


def running(worker_id: str = "w1", lease_ms: int = 30_000, **options: Any) -> tuple[Job, Claim]:
    """A running job and its claim."""
    queue = options.pop("queue", "builders")
    job = queued(queue=queue, **options)
    for claim in Gate(worker_id, queues={queue: 1}, lease_ms=lease_ms).admit(1_000):
        if claim.id == job.id:
            job.refresh_from_db()
            return job, claim
    raise AssertionError(f"{job} was not admitted")


def ended(event: Event, failure: Failure | None = BOOM, **options: Any) -> Job:
    """A job whose run ended with ``event``."""
    job, claim = running(**options)
    assert not ack([(claim, Outcome(event=event, delay_ms=60_000, failure=failure))])
    job.refresh_from_db()
    return job


def cancelled(**options: Any) -> Job:
    """A job that an operator cancelled while it waited."""
    job = queued(**options)
    cancel(Job.objects.filter(pk=job.pk))
    return job


def in_state(state: State, **options: Any) -> Job:
    """A job that stands in ``state``."""
    job = _BUILDERS[state](**options)
    job.refresh_from_db()
    return job


def quarantined(**options: Any) -> Job:
    """A job whose content was quarantined while it waited."""
    job = queued(queue=options.pop("queue", "builders"), **options)
    now_ms = clock.now_ms("default")
    Quarantine.objects.get_or_create(
        fingerprint=job.fingerprint,
        defaults={
            "kind": job.kind,
            "reason": "crash limit reached",
            "crash_count": 3,
            "created_at_ms": now_ms,
        },
    )
    Gate("w1", queues={job.queue: 1}).admit(1_000)
    job.refresh_from_db()
    assert job.state == State.QUARANTINED
    return job


_BUILDERS: dict[State, Callable[..., Job]] = {
    State.AVAILABLE: queued,
    State.PENDING: partial(queued, pending=True),
    State.SCHEDULED: partial(queued, delay_ms=3_600_000),
    State.RUNNING: lambda **options: running(**options)[0],
    State.RETRYABLE: partial(ended, Event.RETRY),
    State.COMPLETED: partial(ended, Event.SUCCEED, None),
    State.ARCHIVED: partial(ended, Event.SKIP),
    State.UNDECODABLE: partial(ended, Event.UNDECODABLE),
    State.CANCELLED: cancelled,
    State.QUARANTINED: quarantined,
}
