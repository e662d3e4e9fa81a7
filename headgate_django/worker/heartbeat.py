"""What a worker tells the fleet about itself, and how it keeps its leases."""

from __future__ import annotations

import os
import socket

from headgate_django import __version__
from headgate_django.jobs.context import CancelReason
from headgate_django.lifecycle.renew import renew
from headgate_django.models.fleet import Worker
from headgate_django.worker.options import WorkerOptions
from headgate_django.worker.run import Run


class Heartbeat:
    """The worker's row in the register."""

    def __init__(self, options: WorkerOptions, using: str) -> None:
        self._options = options
        self._using = using
        self.polls = 0
        self.empty_polls = 0

    def count_poll(self, admitted: int) -> None:
        """Remember one admit."""
        self.polls += 1
        self.empty_polls += admitted == 0

    def beat(self, in_flight: int, status: str) -> bool:
        """Write the row; True. One statement, or two for the first beat."""
        Worker.objects.using(self._using).beat(
            self._options.name,
            hostname=socket.gethostname()[:255],
            pid=os.getpid(),
            version=__version__,
            queues=dict(self._options.queues),
            status=status,
            capacity=self._options.threads,
            in_flight=in_flight,
            polls=self.polls,
            empty_polls=self.empty_polls,
        )
        return True

    def leave(self) -> None:
        """Take the row away: this worker has ended."""
        Worker.objects.using(self._using).filter(id=self._options.name).delete()


def renew_leases(runs: list[Run], lease_ms: int, using: str) -> list[Run]:
    """Renew the leases of the runs; those that lost theirs are told to stop and returned."""
    held = [run for run in runs if not run.lost]
    lost_ids = {claim.id for claim in renew([run.claim for run in held], lease_ms, using=using)}
    lost = [run for run in held if run.claim.id in lost_ids]
    for run in lost:
        run.lost = True
        run.context.cancel(CancelReason.LEASE_LOST)
    return lost
