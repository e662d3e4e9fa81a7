"""Content that has crashed workers: suspected, and at the crash limit quarantined."""

from __future__ import annotations

from django.db import models

from headgate_django.models.fields import KeyField, MillisecondsField


class QuarantineQuerySet(models.QuerySet["Quarantine"]):
    """Verbs over poison pills."""

    def in_force(self) -> QuarantineQuerySet:
        """Those whose content is refused; of the others the jobs are being given back."""
        return self.filter(is_lifted=False)


class Quarantine(models.Model):
    """A poison pill: no job with this fingerprint is stored or admitted until it is released."""

    fingerprint = KeyField(primary_key=True, max_length=32)
    kind = KeyField(max_length=128)
    reason = models.CharField(max_length=255)
    crash_count = models.PositiveIntegerField(default=0)
    sample_job_id = KeyField(max_length=255, default="", blank=True)
    created_at_ms = MillisecondsField(instant=True)
    canary_job_id = KeyField(
        max_length=255, default="", blank=True, help_text="The one job that may run, to see whether it is cured."
    )
    is_lifted = models.BooleanField(
        default=False, editable=False, help_text="The canary succeeded: the other jobs are being released."
    )
    swept_to = KeyField(
        max_length=255,
        default="",
        blank=True,
        editable=False,
        help_text="How far waiting siblings were looked for.",
    )
    is_swept = models.BooleanField(default=False, editable=False)

    objects = QuarantineQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "quarantine"
        ordering = ["-created_at_ms"]
        permissions = [("release_quarantine", "Can release quarantined jobs")]

    def __str__(self) -> str:
        return f"{self.kind} {self.fingerprint}"


class Suspect(models.Model):
    """Content that was running when a worker was lost. All its jobs count together; success clears it."""

    fingerprint = KeyField(primary_key=True, max_length=32)
    crash_count = models.PositiveIntegerField(default=0, help_text="Workers lost while they ran this content.")
    workers = models.JSONField(default=dict, help_text="The workers that were counted last, and when.")
    seen_at_ms = MillisecondsField(instant=True)

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["seen_at_ms"], name="headgate_suspect_seen")]

    def __str__(self) -> str:
        return f"{self.fingerprint}: {self.crash_count}"
