"""Step 5: each drawn job against its deadline and its quarantine; the law decides where refused ones go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate_django.core.states import Event
from headgate_django.gate.draw import Candidate
from headgate_django.models.job import Job

DEADLINE = ("DeadlineExceeded", "deadline exceeded before the job could run", "deadline")


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The drawn jobs, parted."""

    admitted: list[Candidate]
    expired: list[Candidate]
    quarantined: list[Candidate]


def judge(candidates: Sequence[Candidate], now_ms: int) -> Verdicts:
    """Part the candidates. Pure."""
    verdicts = Verdicts([], [], [])
    for candidate in candidates:
        if candidate.quarantined:
            verdicts.quarantined.append(candidate)
        elif 0 < candidate.deadline_ms <= now_ms:
            verdicts.expired.append(candidate)
        else:
            verdicts.admitted.append(candidate)
    return verdicts


def remove_refused(verdicts: Verdicts, now_ms: int, using: str) -> None:
    """Archive the expired jobs and quarantine the poisoned ones."""
    rows = Job.objects.using(using)
    if verdicts.expired:
        error_class, summary, group = DEADLINE
        rows.filter(id__in=[candidate.id for candidate in verdicts.expired]).transition(
            Event.EXPIRE, now_ms=now_ms, error_class=error_class, error_summary=summary, error_group=group
        )
    if verdicts.quarantined:
        rows.filter(id__in=[candidate.id for candidate in verdicts.quarantined]).transition(
            Event.QUARANTINE, now_ms=now_ms
        )
