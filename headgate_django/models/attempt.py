"""One run that did not simply succeed."""

from __future__ import annotations

from django.db import models

from headgate_django.core.states import Event
from headgate_django.models.fields import KeyField, MillisecondsField
from headgate_django.models.job import Job


class Attempt(models.Model):
    """What happened in one run. ``number`` counts the runs of the job (its fence)."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts")
    number = models.BigIntegerField(help_text="The fence of the run: 1 for the first.")
    worker_id = KeyField(max_length=255, default="")
    started_at_ms = MillisecondsField(instant=True)
    finished_at_ms = MillisecondsField(instant=True)
    outcome = KeyField(max_length=16, choices=[(event.value, event.value.replace("_", " ")) for event in Event])
    error_class = models.CharField(max_length=255, default="")
    message = models.TextField(default="")
    traceback = models.TextField(default="")
    logs = models.TextField(
        default="", db_default="", help_text="What the run logged, or printed if it ran alone: bounded, private."
    )

    class Meta:
        default_permissions = ()
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="headgate_attempt_once")]

    def __str__(self) -> str:
        return f"{self.job_id} run {self.number}: {self.outcome}"

    @property
    def duration_ms(self) -> int:
        """How long the run lasted."""
        return int(self.finished_at_ms - self.started_at_ms)
