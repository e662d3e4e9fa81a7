"""Which child has to be killed, and why."""

from __future__ import annotations

from headgate_django.worker.options import WorkerOptions
from headgate_django.worker.supervisor.child import Child

FROZEN_SECONDS = 60.0
"""A child that has given no sign of life for so long, and longer than two leases, is killed."""

LEAVE_SECONDS = 5.0
"""How long a child that has said goodbye may take to end: a log handler of the project may not let it."""


def verdict(child: Child, now: float, stop_by: float | None, options: WorkerOptions) -> tuple[str, bool] | None:
    """The reason, and whether its jobs are without blame; None for one that may live on."""
    if stop_by is not None and now > stop_by:
        return "did not stop in time", True
    if child.farewell is not None and now - child.farewell_at > LEAVE_SECONDS:
        return "did not end after its goodbye", True
    if not child.ready and now - max(child.started, child.waited) > options.start_timeout / 1000:
        return "was not ready in time", True
    if now - child.heard > max(FROZEN_SECONDS, 2 * options.lease / 1000):
        return "gave no sign of life", False
    return None
