"""Content that has crashed workers."""

from __future__ import annotations

from django.db import models

from headgate_django.models.fields import KeyField, MillisecondsField


class Quarantine(models.Model):
    """A poison pill: no job with this fingerprint is stored or admitted until it is released."""

    fingerprint = KeyField(primary_key=True, max_length=32)
    kind = KeyField(max_length=128)
    reason = models.CharField(max_length=255)
    crash_count = models.PositiveIntegerField(default=0)
    sample_job_id = KeyField(max_length=255, default="", blank=True)
    created_at_ms = MillisecondsField(instant=True)

    class Meta:
        verbose_name_plural = "quarantine"
        ordering = ["-created_at_ms"]
        permissions = [("release_quarantine", "Can release quarantined jobs")]

    def __str__(self) -> str:
        return f"{self.kind} {self.fingerprint}"
