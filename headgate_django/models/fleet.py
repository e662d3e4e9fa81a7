"""The workers that are alive, and who holds which duty."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connections, models
from django.db.models import Case, Value, When

from headgate_django.core.admission import EVERY_QUEUE
from headgate_django.core.commands import Command, Status
from headgate_django.models import clock
from headgate_django.models.fields import KeyField, MillisecondsField
from headgate_django.models.store import fetch, marks

STALE_MS = 60_000
"""A worker that has not been heard of for this long is not counted on."""

FORGET_MS = 15 * 60_000
"""A worker that has not been heard of for this long is forgotten."""

_STAMPS = ("started_at_ms", "heartbeat_at_ms")


class WorkerQuerySet(models.QuerySet["Worker"]):
    """Verbs of the fleet's register."""

    def beat(self, worker_id: str, **columns: Any) -> str:
        """Write the heartbeat of one worker, at the store's time; the command that waits for it, or "".

        One statement. What operators write (``command`` and its acknowledgement) is never written here.
        """
        row = Worker(id=worker_id, **columns)
        fields = [field for field in Worker._meta.concrete_fields if field.name not in _STAMPS]
        names = ", ".join([*(str(field.column) for field in fields), *_STAMPS])
        given = [field.column for field in fields if field.name in columns]
        now = clock.now_sql(self.db)
        connection = connections[self.db]
        [(command,)] = fetch(
            self.db,
            f"""
            INSERT INTO headgate_django_worker ({names})
            VALUES ({marks(len(fields))}, {now}, {now})
            ON CONFLICT (id) DO UPDATE
            SET {"".join(f"{column} = excluded.{column}, " for column in given)}heartbeat_at_ms = {now}
            RETURNING command
            """,
            [field.get_db_prep_save(getattr(row, field.attname), connection) for field in fields],
        )
        return str(command)

    def acknowledge(self, worker_id: str, command: str) -> None:
        """Write down that the worker has obeyed; a command that was given since then still waits."""
        self.filter(id=worker_id).update(
            acknowledged=command,
            acknowledged_at_ms=clock.now_ms(self.db),
            command=Case(When(command=command, then=Value("")), default="command"),
        )

    def tell(self, worker_ids: Iterable[str], command: Command) -> int:
        """Leave a command in the rows of these workers; how many. It replaces one that was not yet obeyed."""
        rows = self.filter(id__in=list(worker_ids))
        return rows.update(command=command.value, commanded_at_ms=clock.now_ms(self.db))

    def alive(self) -> WorkerQuerySet:
        """Workers that were heard of lately."""
        return self.filter(heartbeat_at_ms__gt=clock.now_ms(self.db) - STALE_MS)

    def admitting(self) -> WorkerQuerySet:
        """Live workers that ask the gate for jobs: neither quiet nor about to end."""
        return self.alive().filter(status=Status.RUNNING.value, capacity__gt=0)


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

    @property
    def utilisation(self) -> float | None:
        """The share of its slots that is in use; None without slots."""
        return self.in_flight / self.capacity if self.capacity else None

    @property
    def empty_poll_ratio(self) -> float | None:
        """The share of its last polls that found nothing; None before the first."""
        return self.recent_empty_polls / self.recent_polls if self.recent_polls else None

    def alive_at(self, now_ms: int) -> bool:
        """Whether it was heard of lately, at this time of the store."""
        return bool(self.heartbeat_at_ms > now_ms - STALE_MS)

    def serves(self, queue: str) -> bool:
        """Whether it takes jobs of this queue."""
        return any(name in self.queues for name in (queue, EVERY_QUEUE))

    def has_obeyed(self, command: Command) -> bool:
        """Whether it has acknowledged this command since a command was last given."""
        told_ms, obeyed_ms = self.commanded_at_ms or 0, self.acknowledged_at_ms or 0
        return bool(not self.command and self.acknowledged == command and obeyed_ms >= told_ms)


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
