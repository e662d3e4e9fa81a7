"""The workers that are alive, and who holds which duty."""

from __future__ import annotations

from typing import Any

from django.db import models

from headgate_django.models import clock
from headgate_django.models.fields import KeyField, MillisecondsField

STALE_MS = 60_000
"""A worker that has not been heard of for this long is not counted on."""

FORGET_MS = 15 * 60_000
"""A worker that has not been heard of for this long is forgotten."""


class WorkerQuerySet(models.QuerySet["Worker"]):
    """Verbs of the fleet's register."""

    def beat(self, worker_id: str, **columns: Any) -> None:
        """Write the heartbeat of one worker, at the store's time."""
        now_ms = clock.now_ms(self.db)
        self.update_or_create(
            id=worker_id,
            defaults={**columns, "heartbeat_at_ms": now_ms},
            create_defaults={**columns, "heartbeat_at_ms": now_ms, "started_at_ms": now_ms},
        )

    def alive(self) -> WorkerQuerySet:
        """Workers that were heard of lately."""
        return self.filter(heartbeat_at_ms__gt=clock.now_ms(self.db) - STALE_MS)


class Worker(models.Model):
    """One worker process, by its last heartbeat."""

    id = KeyField(primary_key=True, max_length=255)
    hostname = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    version = models.CharField(max_length=64)
    supervisor = KeyField(
        max_length=255, default="", db_default="", help_text="Name of the worker command; its processes share it."
    )
    code_version = models.CharField(
        max_length=64, default="", db_default="", help_text="What --code-version says of the application's code."
    )
    queues = models.JSONField(default=dict, help_text='Queue name to weight; {"*": 1} is every queue.')
    status = models.CharField(max_length=16, default="running")
    capacity = models.PositiveIntegerField()
    in_flight = models.PositiveIntegerField(default=0)
    stuck = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Threads whose handler ignores that its time is up."
    )
    current_jobs = models.JSONField(
        default=list, db_default=[], help_text="What runs now: id, kind and start of up to 50 jobs."
    )
    polls = models.BigIntegerField(default=0)
    empty_polls = models.BigIntegerField(default=0)
    recent_polls = models.PositiveSmallIntegerField(default=0, db_default=0, help_text="At most 128.")
    recent_empty_polls = models.PositiveSmallIntegerField(default=0, db_default=0)
    rss_bytes = models.BigIntegerField(
        default=0, db_default=0, help_text="Resident memory; 0 where it is unknown."
    )
    wakeup = models.CharField(
        max_length=8, default="", db_default="", help_text="How it hears of new work: listen, file or poll."
    )
    command = models.CharField(max_length=16, default="", db_default="", help_text="What it is told to do next.")
    commanded_at_ms = MillisecondsField(null=True, instant=True)
    acknowledged = models.CharField(
        max_length=16, default="", db_default="", help_text="The last command that it obeyed."
    )
    acknowledged_at_ms = MillisecondsField(null=True, instant=True)
    started_at_ms = MillisecondsField(instant=True)
    heartbeat_at_ms = MillisecondsField(instant=True)

    objects = WorkerQuerySet.as_manager()

    class Meta:
        default_permissions = ("view",)
        permissions = [("command_worker", "Can send commands to workers")]
        ordering = ["id"]

    def __str__(self) -> str:
        return self.id


class Duty(models.Model):
    """A sweep that runs once per fleet, under a lease of its own."""

    name = KeyField(primary_key=True, max_length=64)
    holder = KeyField(max_length=255, default="")
    expires_at_ms = MillisecondsField(default=0, instant=True)
    handled = models.BigIntegerField(default=0, help_text="Rows handled since the duty first ran.")

    class Meta:
        default_permissions = ("view",)
        verbose_name_plural = "duties"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
