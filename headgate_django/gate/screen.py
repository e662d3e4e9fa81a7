"""Step 5, its writes: jobs that were refused leave the queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate_django.core.screening import Refusal
from headgate_django.core.states import Event
from headgate_django.models.job import Job
from headgate_django.models.store import batches


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
