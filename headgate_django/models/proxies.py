"""Named selections of jobs, for the admin."""

from __future__ import annotations

from headgate_django.models.job import Job


class ArchivedJob(Job):
    """A dead letter: failed for good, given up, or past its deadline; kept for redrive."""

    class Meta:
        proxy = True
        default_permissions = ("view",)
        verbose_name = "dead letter"
        verbose_name_plural = "dead letters"
