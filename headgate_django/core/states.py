"""The law: which event leads from which state to which.

Everything that knows about states derives from ``TRANSITIONS``: field choices, CHECK constraints, the
SQL guards of every verb, the guard on ``save()``, ``docs/reference/lifecycle.md`` and the tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class State(StrEnum):
    """Where a job stands. ``DELETED`` is the absence of the row and is never stored."""

    PENDING = "pending"
    SCHEDULED = "scheduled"
    AVAILABLE = "available"
    RUNNING = "running"
    RETRYABLE = "retryable"
    COMPLETED = "completed"
    ARCHIVED = "archived"
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"
    UNDECODABLE = "undecodable"
    DELETED = "deleted"


class Event(StrEnum):
    """What can happen to a job."""

    DUE = "due"
    PROMOTE = "promote"
    ADMIT = "admit"
    SUCCEED = "succeed"
    RETRY = "retry"
    SKIP = "skip"
    REVOKE = "revoke"
    SNOOZE = "snooze"
    RATE_LIMIT = "rate_limit"
    UNDECODABLE = "undecodable"
    LOSE_LEASE = "lose_lease"
    INTERRUPT = "interrupt"
    EXPIRE = "expire"
    CANCEL = "cancel"
    DISCARD = "discard"
    QUARANTINE = "quarantine"
    REDRIVE = "redrive"
    RELEASE = "release"
    EVICT = "evict"


@dataclass(frozen=True, slots=True)
class Target:
    """Where an event leads: ``to``, or ``instead`` when the condition ``when`` holds."""

    to: State
    instead: State | None = None
    when: str = ""

    def resolve(self, condition: bool = False) -> State:
        """The state entered; ``condition`` says whether ``when`` holds."""
        return self.instead if condition and self.instead is not None else self.to


INITIAL = frozenset({State.AVAILABLE, State.SCHEDULED, State.PENDING})
TERMINAL = frozenset({State.COMPLETED, State.ARCHIVED, State.CANCELLED, State.QUARANTINED, State.UNDECODABLE})
STORED = frozenset(State) - {State.DELETED}
UNFINISHED = STORED - TERMINAL
WAITING = UNFINISHED - {State.RUNNING}

_S, _E = State, Event
TRANSITIONS: Mapping[tuple[State, Event], Target] = MappingProxyType(
    {
        (_S.SCHEDULED, _E.DUE): Target(_S.AVAILABLE),
        (_S.RETRYABLE, _E.DUE): Target(_S.AVAILABLE),
        (_S.SCHEDULED, _E.PROMOTE): Target(_S.AVAILABLE),
        (_S.PENDING, _E.PROMOTE): Target(_S.AVAILABLE),
        (_S.RETRYABLE, _E.PROMOTE): Target(_S.AVAILABLE),
        (_S.AVAILABLE, _E.ADMIT): Target(_S.RUNNING),
        (_S.RUNNING, _E.SUCCEED): Target(_S.COMPLETED, _S.DELETED, "retention is 0"),
        (_S.RUNNING, _E.RETRY): Target(_S.RETRYABLE, _S.ARCHIVED, "attempts are exhausted"),
        (_S.RUNNING, _E.SKIP): Target(_S.ARCHIVED),
        (_S.RUNNING, _E.REVOKE): Target(_S.DELETED),
        (_S.RUNNING, _E.SNOOZE): Target(_S.SCHEDULED),
        (_S.RUNNING, _E.RATE_LIMIT): Target(_S.SCHEDULED),
        (_S.RUNNING, _E.UNDECODABLE): Target(_S.UNDECODABLE),
        (_S.RUNNING, _E.LOSE_LEASE): Target(_S.RETRYABLE, _S.QUARANTINED, "the crash limit is reached"),
        (_S.RUNNING, _E.INTERRUPT): Target(_S.AVAILABLE),
        **{(state, _E.EXPIRE): Target(_S.ARCHIVED) for state in UNFINISHED},
        **{(state, _E.CANCEL): Target(_S.CANCELLED) for state in UNFINISHED},
        **{(state, _E.QUARANTINE): Target(_S.QUARANTINED) for state in WAITING},
        (_S.AVAILABLE, _E.DISCARD): Target(_S.ARCHIVED),
        **{(state, _E.DISCARD): Target(_S.DELETED) for state in TERMINAL},
        **{(state, _E.EVICT): Target(_S.DELETED) for state in TERMINAL - {_S.QUARANTINED}},
        (_S.ARCHIVED, _E.REDRIVE): Target(_S.AVAILABLE),
        (_S.CANCELLED, _E.REDRIVE): Target(_S.AVAILABLE),
        (_S.UNDECODABLE, _E.REDRIVE): Target(_S.AVAILABLE),
        (_S.QUARANTINED, _E.RELEASE): Target(_S.AVAILABLE),
    }
)


def sources(event: Event) -> tuple[State, ...]:
    """The states in which ``event`` may happen, in the order of the enum."""
    return tuple(state for state in State if (state, event) in TRANSITIONS)


def target(state: State, event: Event, *, condition: bool = False) -> State | None:
    """The state that ``event`` leads to from ``state``, or None when the law has no such row."""
    row = TRANSITIONS.get((state, event))
    return row.resolve(condition) if row else None


def events_from(state: State) -> tuple[Event, ...]:
    """The events that may happen in ``state``, in the order of the enum."""
    return tuple(event for event in Event if (state, event) in TRANSITIONS)
