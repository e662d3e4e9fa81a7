"""What a worker process tells the fleet about itself, and how it keeps its leases."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any

from django.db import DatabaseError

from headgate_django import __version__
from headgate_django.core.commands import Command
from headgate_django.lifecycle.renew import renew
from headgate_django.lifecycle.settle import locked_by_others
from headgate_django.models.fleet import Worker
from headgate_django.models.store import is_locked_out
from headgate_django.worker import memory
from headgate_django.worker.options import WorkerOptions
from headgate_django.worker.run import Run

WINDOW = 128
"""Polls that the share of empty ones is taken over."""

SHOWN_JOBS = 50


class Heartbeat:
    """The row of one process in the register."""

    def __init__(self, options: WorkerOptions, worker_id: str, using: str) -> None:
        self._using = using
        self._id = worker_id
        self._polls = 0
        self._empty_polls = 0
        self._recent: deque[bool] = deque(maxlen=WINDOW)
        self._fixed: dict[str, Any] = {
            "supervisor": options.name,
            "code_version": options.code_version,
            "hostname": socket.gethostname()[:255],
            "pid": os.getpid(),
            "version": __version__,
            "queues": dict(options.queues),
            "capacity": options.threads,
        }

    def count_poll(self, admitted: int) -> None:
        """Remember one admit."""
        self._polls += 1
        self._empty_polls += admitted == 0
        self._recent.append(admitted == 0)

    def beat(self, runs: Sequence[Run], *, status: str, stuck: int, wakeup: str) -> Command | None:
        """Write the row; the command that waits in it."""
        command = Worker.objects.using(self._using).beat(
            self._id,
            **self._fixed,
            status=status,
            stuck=stuck,
            wakeup=wakeup,
            in_flight=len(runs),
            current_jobs=[
                {"id": run.claim.id, "kind": run.claim.kind, "started_at_ms": run.claim.started_at_ms}
                for run in runs[:SHOWN_JOBS]
            ],
            polls=self._polls,
            empty_polls=self._empty_polls,
            recent_polls=len(self._recent),
            recent_empty_polls=sum(self._recent),
            rss_bytes=memory.rss(os.getpid()),
        )
        return Command(command) if command else None

    def acknowledge(self, command: Command) -> None:
        """Say in the row that the command was obeyed."""
        Worker.objects.using(self._using).acknowledge(self._id, command)

    def leave(self) -> bool:
        """Take the row away: this process has ended. True."""
        Worker.objects.using(self._using).filter(id=self._id).delete()
        return True


def renew_leases(runs: list[Run], lease_ms: int, using: str) -> list[Run]:
    """Renew the leases of the runs; those that lost theirs."""
    held = {run.claim.run_id: run for run in runs if not (run.lost or run.abandoned)}
    claims = [run.claim for run in held.values()]
    try:
        lost = renew(claims, lease_ms, using=using)
    except DatabaseError as error:
        if not is_locked_out(error):
            raise
        # Somebody has locked a job that runs here: the others must not lose their leases for it.
        locked = locked_by_others(claims, using)
        lost = renew([one for one in claims if one.run_id not in locked], lease_ms, using=using)
    return [held[claim.run_id] for claim in lost]
