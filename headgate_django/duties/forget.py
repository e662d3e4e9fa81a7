"""Forget workers that ended without saying so. Their jobs are recovered by lease, before or after."""

from __future__ import annotations

from headgate_django.models import clock
from headgate_django.models.fleet import FORGET_MS, Worker


def forget_workers(*, using: str) -> int:
    """Delete the rows of workers not heard of for 15 minutes; how many."""
    limit = clock.now_ms(using) - FORGET_MS
    count, _ = Worker.objects.using(using).filter(heartbeat_at_ms__lt=limit).delete()
    return count
