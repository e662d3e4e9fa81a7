"""One worker process from start to end."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from django.conf import settings
from django.db import connections

from headgate_django.control.declare import sync_declared
from headgate_django.jobs import registry
from headgate_django.models.store import alias
from headgate_django.worker.options import WorkerOptions
from headgate_django.worker.runtime import Runtime
from headgate_django.worker.shutdown import Shutdown
from headgate_django.worker.sweeper import Sweeper

logger = logging.getLogger("headgate_django.worker")


def run_worker(options: WorkerOptions, shutdown: Shutdown, announce: Callable[[str], None]) -> bool:
    """Serve until asked to stop; whether every handler has returned.

    ``announce`` gets one line, containing "ready", when the worker begins to admit. Raises ConfigurationError
    when a jobs module cannot be imported.
    """
    registry.autodiscover()
    using = options.database or alias()
    sync_declared(using=using)
    if settings.DEBUG:
        logger.warning("DEBUG is on: slower, and errors show more than they should in production")
    sweeper = Sweeper(options.name, using) if options.duties else None
    runtime = Runtime(options, shutdown, using)
    if sweeper:
        sweeper.start()
    announce(_ready_line(options, using))
    try:
        return runtime.serve()
    finally:
        if sweeper:
            sweeper.stop()
        sys.stdout.flush()


def _ready_line(options: WorkerOptions, using: str) -> str:
    queues = ",".join(f"{name}:{weight}" for name, weight in options.queues.items())
    return (
        f"worker {options.name} ready: queues {queues}, {options.threads} threads, "
        f"database {using} ({connections[using].vendor}), {len(registry.kinds())} kinds"
    )
