"""What is private or bulky: kept apart, so that no list can leak it and no transition rewrites it."""

from __future__ import annotations

from django.db import models

from headgate_django.models.job import Job


class Payload(models.Model):
    """The private part of one job."""

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="payload")
    data = models.BinaryField()
    headers = models.JSONField(default=dict, blank=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"payload of {self.job_id}: {len(self.data)} bytes"
