"""Step 5 of the gate: each drawn job against its quarantine, its deadline and the limits."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate_django.core.allocation import Group
from headgate_django.core.drawing import Candidate
from headgate_django.core.states import Event
from headgate_django.core.turnstile import Answer, Ceiling, Turnstile

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


def judge(candidates: Sequence[Candidate], turns: Sequence[Group], now_ms: int, turnstile: Turnstile) -> Verdicts:
    """Part the candidates, which come in the order of their group, and charge those admitted.

    The slots are filled turn by turn: what is scarcer than slots (tokens, places under a ceiling) is then shared
    like slots. A job that the limits hold back also holds those behind it in its stream: a heavy job must not be
    overtaken for ever by light ones.
    """
    verdicts = Verdicts()
    lines: dict[Group, deque[Candidate]] = {}
    for candidate in candidates:
        if refusal := _unfit(candidate, now_ms):
            verdicts.refused.append(refusal)
        else:
            lines.setdefault(candidate.group, deque()).append(candidate)
    for group in turns:
        line = lines.get(group)
        while line and not _rule(line.popleft(), turnstile, verdicts):
            pass
    verdicts.surplus = [
        candidate
        for line in lines.values()
        for candidate in line
        if (candidate.group, candidate.rate_class) not in verdicts.held
    ]
    return verdicts


def _unfit(candidate: Candidate, now_ms: int) -> Refusal | None:
    if candidate.quarantined:
        return Refusal(candidate, Event.QUARANTINE, ("", "", ""))
    if 0 < candidate.deadline_ms <= now_ms:
        return Refusal(candidate, Event.EXPIRE, DEADLINE)
    return None


def _rule(candidate: Candidate, turnstile: Turnstile, verdicts: Verdicts) -> bool:
    """Ask the turnstile; whether the turn is used."""
    if (candidate.group, candidate.rate_class) in verdicts.held:
        return False
    stream = candidate.stream
    ruling = turnstile.rule(stream, candidate.weight)
    match ruling.answer:
        case Answer.ADMIT:
            turnstile.admit(stream, candidate.weight, ruling)
            verdicts.admitted.append(candidate)
            if ruling.displaced:
                verdicts.displacing[candidate.id] = ruling.displaced
        case Answer.HOLD:
            turnstile.hold(stream, ruling)
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
