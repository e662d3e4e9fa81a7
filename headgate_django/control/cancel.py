"""Cancel and discard: end jobs, or delete ended ones."""

from __future__ import annotations

from collections.abc import Iterable

from headgate_django.control.authority import Actor
from headgate_django.control.report import Report
from headgate_django.control.sweep import sweep
from headgate_django.control.verb import CANCEL, DISCARD
from headgate_django.lifecycle import cancel as lifecycle
from headgate_django.models.job import JobQuerySet


def cancel(jobs: JobQuerySet | Iterable[str], *, actor: Actor | None, using: str = "") -> Report:
    """Cancel unfinished jobs. A running one loses its lease; its late ack is refused. Raises PermissionRefused."""
    return sweep(CANCEL, jobs, lifecycle.cancel, actor=actor, using=using)


def discard(jobs: JobQuerySet | Iterable[str], *, actor: Actor | None, using: str = "") -> Report:
    """Delete finished jobs with their payloads and attempts; the record stays. Raises PermissionRefused."""
    return sweep(DISCARD, jobs, lifecycle.discard, actor=actor, using=using)
