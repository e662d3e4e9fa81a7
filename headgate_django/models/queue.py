"""Policies of queues and their partitions. No row means no policy."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from headgate_django.models.declared import DeclaredPolicy
from headgate_django.models.fields import KeyField


class Queue(DeclaredPolicy):
    """How one queue is served: read by the gate, editable while workers run."""

    name = KeyField(primary_key=True, max_length=255)
    weight = models.PositiveIntegerField(default=1, help_text="Share of the workers' slots, against other queues.")
    paused = models.BooleanField(default=False, help_text="A paused queue admits nothing; running jobs finish.")
    max_unfinished_jobs = models.PositiveIntegerField(
        null=True, blank=True, help_text="Enqueue is refused above this; 0 closes intake, empty is no limit."
    )

    class Meta:
        ordering = ["name"]
        permissions = [("pause_queue", "Can pause and resume queues")]
        constraints = [models.CheckConstraint(name="headgate_queue_weight", condition=Q(weight__gte=1))]

    def __str__(self) -> str:
        return self.name

    def policy(self) -> dict[str, int | None]:
        """Weight and cap."""
        return {"weight": self.weight, "max_unfinished_jobs": self.max_unfinished_jobs}


class Partition(DeclaredPolicy):
    """How one tenant of a queue is served."""

    queue = KeyField(max_length=255)
    key = KeyField(max_length=255, blank=True)
    weight = models.PositiveIntegerField(default=1, help_text="Share against the queue's other partitions.")
    paused = models.BooleanField(default=False)

    class Meta:
        ordering = ["queue", "key"]
        constraints = [
            models.UniqueConstraint(fields=["queue", "key"], name="headgate_partition_once"),
            models.CheckConstraint(name="headgate_partition_weight", condition=Q(weight__gte=1)),
        ]

    def __str__(self) -> str:
        return f"{self.queue}/{self.key}"

    def policy(self) -> dict[str, int]:
        """The weight."""
        return {"weight": self.weight}
