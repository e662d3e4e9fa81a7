"""Step 5, its writes: jobs that were refused leave the queue."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from headgate_django.core.screening import Refusal
from headgate_django.core.states import Event
from headgate_django.models.job import Job
from headgate_django.models.quarantine import Quarantine
from headgate_django.models.store import batches


def remove_refused(refused: Sequence[Refusal], now_ms: int, using: str) -> None:
    """Move the refused jobs to where the law sends them, with the reason on the row."""
    together: dict[tuple[Event, tuple[str, str, str]], list[str]] = {}
    poison = _lock_quarantines({refusal.candidate.quarantined for refusal in refused} - {""}, using)
    for refusal in refused:
        if refusal.event is Event.QUARANTINE and refusal.candidate.quarantined not in poison:
            continue  # is being released at this moment
        together.setdefault((refusal.event, refusal.error), []).append(refusal.candidate.id)
    for (event, (error_class, summary, group)), job_ids in together.items():
        changes: dict[str, Any] = {}
        if error_class:
            changes = {"error_class": error_class, "error_summary": summary, "error_group": group}
        for ids in batches(job_ids, using):
            Job.objects.using(using).filter(id__in=ids).transition(event, now_ms=now_ms, **changes)


def _lock_quarantines(fingerprints: Collection[str], using: str) -> set[str]:
    # Locked, so that no release can commit in between and leave the jobs behind. Jobs are locked already, so these
    # rows are not waited for.
    rows = Quarantine.objects.using(using).in_force().select_for_update(skip_locked=True)
    return {
        fingerprint
        for part in batches(sorted(fingerprints), using)
        for fingerprint in rows.filter(fingerprint__in=part).values_list("fingerprint", flat=True)
    }
