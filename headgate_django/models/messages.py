"""Messages to single workers over PostgreSQL's NOTIFY. A lost one costs a renewal's time, never a job."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from django.db import transaction

from headgate_django.models.store import fetch, is_postgres

CHANNEL = "headgate_django"
"""Where new work is announced to everybody. A worker's own channel begins with it, too."""

AT_ONCE = 500
"""Workers that one statement calls."""


def channel_of(worker_id: str) -> str:
    """The channel that one worker listens to. A channel's name is short and an id need not be, hence a digest."""
    return f"{CHANNEL}_{hashlib.sha256(worker_id.encode()).hexdigest()[:32]}"


def notify_workers(worker_ids: Iterable[str], using: str) -> None:
    """Once the transaction has committed, tell these workers to look at their leases and at their row now.

    Never fails, and does nothing where there is no NOTIFY: there they see it at their next renewal.
    """
    channels = sorted({channel_of(worker_id) for worker_id in worker_ids if worker_id})
    if channels and is_postgres(using):
        transaction.on_commit(lambda: _call(channels, using), using=using, robust=True)


def _call(channels: list[str], using: str) -> None:
    for start in range(0, len(channels), AT_ONCE):
        part = channels[start : start + AT_ONCE]
        fetch(using, "SELECT pg_notify(channel, '') FROM unnest(%s::text[]) AS channel", [part])
