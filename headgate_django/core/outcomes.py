"""How a run ends: the closed set of outcomes, and what each makes of the job.

``settle`` is the one place that turns (claim, outcome) into the next execution state; the store only
writes down what it says, under the claim's fence.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate_django.core import backoff
from headgate_django.core.envelope import INT32_MAX
from headgate_django.core.states import Event, State, target


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One admitted job as the worker holds it."""

    id: str
    kind: str
    schema_version: int
    queue: str
    partition_key: str
    rate_class: str
    lease_id: str
    fence: int
    attempt: int
    crash_attempt: int
    interruptions: int
    max_attempts: int
    scheduled_at_ms: int
    timeout_ms: int
    deadline_ms: int
    retention_ms: int
    started_at_ms: int
    worker_id: str
    weight: int = 1
    charged_weight: int = 0
    suspect: str = ""
    """Its fingerprint, if a worker was lost with this content since it last succeeded."""
    payload: bytes = b""
    headers: str = "{}"

    @property
    def run_id(self) -> tuple[str, int]:
        """Id and fence: one run. Not the id alone: one worker may hold an old and a new claim of the same job."""
        return self.id, self.fence

    def __repr__(self) -> str:  # payload and headers are private
        return f"<Claim {self.kind} id={self.id} fence={self.fence}>"


NO_HANDLER = "NoHandler"
"""The error class of a job that a worker put back because it knows no handler for its kind."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come; ``total`` is 0 when it is not known."""

    done: int
    total: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong, as bounded text: an exception never travels."""

    error_class: str = ""
    message: str = ""
    traceback: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The verdict on one run. ``delay_ms`` is used by retry (None: the backoff), snooze and rate_limit.

    ``hold_class_ms`` keeps the whole rate class back; ``actual_weight`` corrects what was charged for the run;
    ``logs`` is what the run said, bounded. ``acked``: written already, in the handler's own transaction.
    """

    event: Event
    delay_ms: int | None = None
    give_up: bool = False
    hold_class_ms: int = 0
    actual_weight: int | None = None
    failure: Failure | None = None
    logs: str = field(default="", repr=False)  # private
    acked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The execution state that an outcome leads to; ``state`` may be DELETED.

    ``delay_ms`` counts from the store's time at which this is written; None leaves the scheduled time as it is.
    """

    event: Event
    state: State
    attempt: int
    crash_attempt: int
    interruptions: int
    delay_ms: int | None
    failure: Failure | None
    logs: str = field(default="", repr=False)  # private


RUN_EVENTS = frozenset(
    {
        Event.SUCCEED,
        Event.RETRY,
        Event.SKIP,
        Event.REVOKE,
        Event.SNOOZE,
        Event.RATE_LIMIT,
        Event.UNDECODABLE,
        Event.INTERRUPT,
        Event.EXPIRE,
    }
)
"""What a worker may ack. ``lose_lease`` belongs to the reclaimer."""


def settle(claim: Claim, outcome: Outcome, *, jitter: float, crash_limit: int = 0, crashes: int = 0) -> Settlement:
    """The next execution state of a running job. ``jitter`` is a number in [0, 1).

    A lost lease quarantines when the job's own crashes, or ``crashes``, those of all jobs with its content, reach
    the limit.
    """
    event = outcome.event
    attempt = _count(claim.attempt, event is Event.RETRY)
    crash_attempt = _count(claim.crash_attempt, event is Event.LOSE_LEASE)
    condition = {
        Event.SUCCEED: claim.retention_ms == 0,
        Event.RETRY: outcome.give_up or attempt >= claim.max_attempts,
        Event.LOSE_LEASE: max(crash_attempt, crashes) >= crash_limit,
    }.get(event, False)
    state = target(State.RUNNING, event, condition=condition)
    assert state is not None, f"{event} does not end a run"
    return Settlement(
        event=event,
        state=state,
        attempt=attempt,
        crash_attempt=crash_attempt,
        interruptions=_count(claim.interruptions, event is Event.INTERRUPT),
        delay_ms=_delay_ms(outcome, attempt, crash_attempt, jitter),
        failure=outcome.failure,
        logs=outcome.logs,
    )


def _count(count: int, happened: bool) -> int:
    # A counter stops at the end of its column: overflowing would refuse the ack, and with it the whole batch.
    return min(count + happened, INT32_MAX)


def _delay_ms(outcome: Outcome, attempt: int, crash_attempt: int, jitter: float) -> int | None:
    match outcome.event:
        case Event.RETRY if outcome.delay_ms is None:
            return backoff.failure_delay(attempt, jitter)
        case Event.LOSE_LEASE:
            return backoff.crash_delay(crash_attempt, jitter)
        case Event.RETRY | Event.SNOOZE | Event.RATE_LIMIT:
            return outcome.delay_ms or 0
        case _:
            return None
