"""Forget workers that ended without saying so. Their jobs are recovered by lease, before or after."""

from __future__ import annotations

from headgate_django.models import clock
from headgate_django.models.fleet import FORGET_MS
from headgate_django.models.forget import forget


def forget_workers(*, limit: int = 500, using: str) -> int:
    """Delete the rows of up to ``limit`` workers not heard of for 15 minutes; how many."""
    return forget(
        using,
        "headgate_django_worker",
        "id",
        where="heartbeat_at_ms < %s",
        params=[clock.now_ms(using) - FORGET_MS],
        order="id",
        limit=limit,
    )
