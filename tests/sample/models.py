"""What the sample handlers leave behind, so that tests can count runs in the database."""

import os
from typing import TYPE_CHECKING

from django.db import models

if TYPE_CHECKING:
    from headgate_django import Context


class Run(models.Model):
    """One entry of a handler."""

    name = models.CharField(max_length=255, db_index=True)
    job_id = models.CharField(max_length=255)
    attempt = models.IntegerField(default=1)
    pid = models.IntegerField(default=0)
    finished = models.BooleanField(default=False)
    entered_ms = models.BigIntegerField(default=0)
    left_ms = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.name} {self.job_id}"


def record(context: "Context", name: str = "") -> Run:
    """Leave a row that says which handler ran where."""
    return Run.objects.create(
        name=name or context.kind, job_id=context.job_id, attempt=context.attempt, pid=os.getpid()
    )
