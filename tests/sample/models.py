"""What the sample handlers leave behind, so that tests can count runs in the database."""

from django.db import models


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
