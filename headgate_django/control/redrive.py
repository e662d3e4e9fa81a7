"""Redrive: give dead jobs another chance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate_django.control.authority import Actor
from headgate_django.control.report import ATTEMPTS_AT_LIMIT, Report
from headgate_django.control.sweep import held_by_quarantine, sweep
from headgate_django.control.verb import REDRIVE
from headgate_django.core.envelope import INT32_MAX
from headgate_django.lifecycle import redrive as lifecycle
from headgate_django.models.job import Job, JobQuerySet


def redrive(
    jobs: JobQuerySet | Iterable[str], *, actor: Actor | None, extra_attempts: int = 0, using: str = ""
) -> Report:
    """Make archived, cancelled and undecodable jobs available again, with ``extra_attempts`` (0 to 1000) more.

    Jobs whose content is quarantined are refused until it is released. Raises PermissionRefused, and InvalidJob
    for another number of attempts.
    """

    def refuse(standing: Sequence[Job]) -> dict[str, str]:
        full = {job.pk: ATTEMPTS_AT_LIMIT for job in standing if job.max_attempts > INT32_MAX - extra_attempts}
        return full | held_by_quarantine(standing)

    return sweep(
        REDRIVE,
        jobs,
        lambda ready: lifecycle.redrive(ready, extra_attempts=extra_attempts),
        actor=actor,
        using=using,
        note=f" with {extra_attempts} extra attempts" if extra_attempts else "",
        refuse=refuse,
    )
