"""Step 5: each drawn job against its deadline and its quarantine; the law decides where refused ones go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate_django.core.allocation import Group
from headgate_django.core.states import Event
from headgate_django.gate.draw import Candidate
from headgate_django.models.job import Job
from headgate_django.models.quarantine import Quarantine
from headgate_django.models.store import batches

DEADLINE = ("DeadlineExceeded", "deadline exceeded before the job could run", "deadline")


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The drawn jobs, parted; ``surplus`` would be admitted if their group had a larger share."""

    admitted: list[Candidate]
    surplus: list[Candidate]
    expired: list[Candidate]
    quarantined: list[Candidate]


def judge(candidates: Sequence[Candidate], shares: Mapping[Group, int], now_ms: int) -> Verdicts:
    """Part the candidates, which come in the order of their group. Pure."""
    verdicts = Verdicts([], [], [], [])
    given: Counter[Group] = Counter()
    for candidate in candidates:
        if candidate.quarantined:
            verdicts.quarantined.append(candidate)
        elif 0 < candidate.deadline_ms <= now_ms:
            verdicts.expired.append(candidate)
        elif given[candidate.group] < shares.get(candidate.group, 0):
            given[candidate.group] += 1
            verdicts.admitted.append(candidate)
        else:
            verdicts.surplus.append(candidate)
    return verdicts


def remove_refused(verdicts: Verdicts, now_ms: int, using: str) -> None:
    """Archive the expired jobs and quarantine the poisoned ones."""
    rows = Job.objects.using(using)
    error_class, summary, group = DEADLINE
    for ids in batches([candidate.id for candidate in verdicts.expired], using):
        rows.filter(id__in=ids).transition(
            Event.EXPIRE, now_ms=now_ms, error_class=error_class, error_summary=summary, error_group=group
        )
    for fingerprints in batches(sorted({candidate.quarantined for candidate in verdicts.quarantined}), using):
        # Locked, so that a release cannot commit in between and leave these jobs behind.
        kept = set(
            Quarantine.objects.using(using)
            .select_for_update(skip_locked=True)
            .filter(fingerprint__in=fingerprints)
            .values_list("fingerprint", flat=True)
        )
        for ids in batches([each.id for each in verdicts.quarantined if each.quarantined in kept], using):
            rows.filter(id__in=ids).transition(Event.QUARANTINE, now_ms=now_ms)
