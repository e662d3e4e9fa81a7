"""Claims and outcomes as messages: what crosses from a worker to a process of a job's own, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headgate_django.core.outcomes import Claim, Failure, Outcome
from headgate_django.core.states import Event
from headgate_django.worker.failure import no_room

CLAIM, CANCEL, DUMP = "claim", "cancel", "dump"
OUTCOME, PROGRESS, WEIGHT = "outcome", "progress", "weight"


def pack_claim(claim: Claim) -> dict[str, Any]:
    """The claim, private parts included: it goes through a socket pair between two processes of one worker."""
    return asdict(claim)


def unpack_claim(fields: dict[str, Any]) -> Claim:
    """The claim again."""
    return Claim(**fields)


def not_isolated(error: Exception) -> Outcome:
    """There is no process for the job, or none that can call its handler."""
    return no_room("NoProcess", f"could not be isolated: {error}", "no-process")


def pack_outcome(outcome: Outcome) -> dict[str, Any]:
    """The outcome: plain text and numbers, since an exception never travels."""
    return {**asdict(outcome), "event": outcome.event.value}


def unpack_outcome(fields: dict[str, Any]) -> Outcome:
    """The outcome again."""
    failure = Failure(**fields["failure"]) if fields["failure"] else None
    return Outcome(**{**fields, "event": Event(fields["event"]), "failure": failure})
