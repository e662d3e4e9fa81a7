"""Step 5: each drawn job against its quarantine, its deadline and the limits; those refused leave the queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headgate_django.core.allocation import Group, Stream
from headgate_django.core.states import Event
from headgate_django.core.turnstile import Answer, Ceiling, Turnstile
from headgate_django.gate.draw import Candidate
from headgate_django.models.job import Job
from headgate_django.models.store import batches

DEADLINE = ("DeadlineExceeded", "deadline exceeded before the job could run", "deadline")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A job that is taken out instead of run: by which event, and what to write on it."""

    candidate: Candidate
    event: Event
    error: tuple[str, str, str]


@dataclass(slots=True)
class Verdicts:
    """The drawn jobs, parted. ``surplus`` would be admitted if their group had a larger share."""

    admitted: list[Candidate] = field(default_factory=list)
    displacing: dict[str, tuple[Ceiling, ...]] = field(default_factory=dict)
    surplus: list[Candidate] = field(default_factory=list)
    held: set[tuple[Group, str]] = field(default_factory=set)
    refused: list[Refusal] = field(default_factory=list)


def judge(
    candidates: Sequence[Candidate], shares: Mapping[Group, int], now_ms: int, turnstile: Turnstile
) -> Verdicts:
    """Part the candidates, which come in the order of their group, and charge those admitted. Pure.

    A job that the limits hold back also holds those behind it in its stream: a heavy job must not be overtaken
    for ever by light ones.
    """
    verdicts = Verdicts()
    given: Counter[Group] = Counter()
    for candidate in candidates:
        if refusal := _unfit(candidate, now_ms):
            verdicts.refused.append(refusal)
        elif (candidate.group, candidate.rate_class) in verdicts.held:
            continue
        elif given[candidate.group] >= shares.get(candidate.group, 0):
            verdicts.surplus.append(candidate)
        else:
            given[candidate.group] += _rule(candidate, turnstile, verdicts)
    return verdicts


def _unfit(candidate: Candidate, now_ms: int) -> Refusal | None:
    if candidate.quarantined:
        return Refusal(candidate, Event.QUARANTINE, ("", "", ""))
    if 0 < candidate.deadline_ms <= now_ms:
        return Refusal(candidate, Event.EXPIRE, DEADLINE)
    return None


def _rule(candidate: Candidate, turnstile: Turnstile, verdicts: Verdicts) -> bool:
    stream = stream_of(candidate)
    ruling = turnstile.rule(stream, candidate.weight)
    match ruling.answer:
        case Answer.ADMIT:
            turnstile.admit(stream, candidate.weight, ruling)
            verdicts.admitted.append(candidate)
            if ruling.displaced:
                verdicts.displacing[candidate.id] = ruling.displaced
        case Answer.HOLD:
            verdicts.held.add((candidate.group, candidate.rate_class))
        case answer:
            event, error_class = _OUT[answer]
            verdicts.refused.append(Refusal(candidate, event, (error_class, ruling.reason[:512], answer.value)))
    return ruling.answer is Answer.ADMIT


_OUT: Mapping[Answer, tuple[Event, str]] = {
    Answer.TOO_HEAVY: (Event.DISCARD, "TooHeavy"),
    Answer.DISCARD: (Event.DISCARD, "Saturated"),
    Answer.CANCEL_INCOMING: (Event.CANCEL, "Saturated"),
}


def stream_of(candidate: Candidate) -> Stream:
    """The stream of a candidate, as far as limits look at it."""
    return Stream(*candidate.group, candidate.rate_class, "")


def remove_refused(refused: Sequence[Refusal], now_ms: int, using: str) -> None:
    """Move the refused jobs to where the law sends them, with the reason on the row."""
    together: dict[tuple[Event, tuple[str, str, str]], list[str]] = {}
    for refusal in refused:
        together.setdefault((refusal.event, refusal.error), []).append(refusal.candidate.id)
    for (event, (error_class, summary, group)), job_ids in together.items():
        changes: dict[str, Any] = {}
        if error_class:
            changes = {"error_class": error_class, "error_summary": summary, "error_group": group}
        for ids in batches(job_ids, using):
            Job.objects.using(using).filter(id__in=ids).transition(event, now_ms=now_ms, **changes)
