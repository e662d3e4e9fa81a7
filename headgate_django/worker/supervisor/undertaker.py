"""Reports a dead process: its leases are taken back at once, by a process that lives only for that.

The supervisor itself must not open connections, nor wait for a database.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from django.db import connections

from headgate_django.core.outcomes import Failure
from headgate_django.duties import lease
from headgate_django.lifecycle.fence import Held
from headgate_django.lifecycle.reclaim import lose_worker
from headgate_django.models.store import alias
from headgate_django.worker.options import WorkerOptions
from headgate_django.worker.trouble import Trouble

logger = logging.getLogger("headgate_django.worker")


UNWRITTEN = Failure(
    error_class="Unwritten", message="ended before it could write how its runs had ended", group="unwritten"
)
"""Of a process that ended in order while the database was away, or somebody held its jobs' rows: no crash."""


@dataclass(frozen=True)
class Report:
    """Who died, of what, and who is innocent of it."""

    worker_id: str
    cause: Failure
    innocent: frozenset[Held]
    is_crash: bool


def bury(report: Report, options: WorkerOptions) -> int:
    """Take the leases back and give its duties up; an exit code.

    While the database is in trouble it tries again for as long as a lease lasts: then they expire by themselves.
    """
    using = options.database or alias()
    trouble = Trouble(using)
    end = time.monotonic() + options.lease / 1000
    try:
        trouble.insist("report a dead process", lambda: _report(report, using), lambda: time.monotonic() > end)
    finally:
        connections.close_all()
    return 0


def _report(report: Report, using: str) -> bool:
    lost, given_back = lose_worker(
        report.worker_id, report.cause, innocent=report.innocent, is_crash=report.is_crash, using=using
    )
    lease.release(report.worker_id, using=using)
    if lost or given_back:
        logger.warning(
            "worker %s %s: %d leases lost, %d given back", report.worker_id, report.cause.message, lost, given_back
        )
    return True
