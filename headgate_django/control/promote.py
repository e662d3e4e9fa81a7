"""Promote: make waiting jobs available now."""

from __future__ import annotations

from collections.abc import Iterable

from headgate_django.control.authority import Actor
from headgate_django.control.report import Report
from headgate_django.control.sweep import held_by_quarantine, sweep
from headgate_django.control.verb import PROMOTE
from headgate_django.lifecycle import promote as lifecycle
from headgate_django.models.job import JobQuerySet


def promote(jobs: JobQuerySet | Iterable[str], *, actor: Actor | None, using: str = "") -> Report:
    """Make scheduled, pending and retryable jobs available now. Raises PermissionRefused."""
    return sweep(PROMOTE, jobs, lifecycle.promote, actor=actor, using=using, refuse=held_by_quarantine)
