"""One worker process from start to end."""

from __future__ import annotations

import faulthandler
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from django.conf import settings
from django.db import connections

from headgate_django.control.declare import sync_declared
from headgate_django.jobs import registry
from headgate_django.models.store import alias
from headgate_django.worker import streams
from headgate_django.worker.control import Control
from headgate_django.worker.options import WorkerOptions
from headgate_django.worker.orders import Orders
from headgate_django.worker.runtime import Runtime
from headgate_django.worker.signals import Signals
from headgate_django.worker.sweeper import Sweeper
from headgate_django.worker.trouble import Trouble

logger = logging.getLogger("headgate_django.worker")


def serve(
    options: WorkerOptions,
    worker_id: str,
    orders: Orders,
    control: Control | None,
    announce: Callable[[str], None],
) -> bool:
    """Serve until told to stop; whether every handler has returned.

    ``announce`` gets one line, containing "ready", when the process begins to admit.
    """
    using = options.database or alias()
    runtime = Runtime(options, worker_id, orders, control.cells if control else None, using)

    waited = _enter(runtime, orders, control, using)
    sweeper = Sweeper(worker_id, using, after_outage=waited) if options.duties else None
    if sweeper:
        orders.on_resign(sweeper.resign)
        sweeper.start()
    line = ready_line(options, worker_id, using)
    announce(line)
    if control:
        control.ready(line, lambda: runtime.is_serving)
    try:
        return runtime.serve()
    finally:
        if sweeper:
            sweeper.stop()
        streams.flush()


def _enter(runtime: Runtime, orders: Orders, control: Control | None, using: str) -> bool:
    """Make this process known in the database; whether it had to wait for that."""
    tries = 0

    def enter() -> None:
        nonlocal tries
        tries += 1
        sync_declared(using=using)
        runtime.register()

    trouble = Trouble(using)
    if control:
        control.entering(lambda: trouble.pausing > 0)
    with runtime.limited():
        trouble.insist("enter the database", enter, lambda: orders.stopping)
    return tries > 1


def serve_alone(
    options: WorkerOptions, announce: Callable[[str], None], heard: Callable[[], Iterable[int]] = tuple
) -> bool:
    """A worker without a supervisor, in this process: for a debugger, and where a process cannot fork.

    ``heard`` gives the signals that came before this worker could listen itself.
    """
    orders = Orders(options.shutdown_timeout / 1000)
    signals = Signals(orders, supervised=False)
    signals.install()
    for number in heard():
        signals.repeat(number)
    try:
        load()
        signals.install()
        if options.health_port or options.health_file:
            logger.warning("nobody answers --health-port and writes --health-file: there is no supervisor")
        # Nobody would replace it after so many jobs.
        return serve(replace(options, max_jobs=0), options.name, orders, None, announce)
    finally:
        signals.uninstall()


def load() -> None:
    """Import what the jobs are made of. Raises ConfigurationError when a jobs module cannot be imported."""
    registry.autodiscover()
    if settings.DEBUG:
        logger.warning("DEBUG is on: slower, and errors show more than they should in production")


def be_worker(options: WorkerOptions, worker_id: str, control: Control, orders: Orders) -> int:
    """The life of a supervised process, which hears its signals already; its exit code."""
    faulthandler.enable(2)  # whatever an import has made of sys.stderr
    control.start()
    serve(options, worker_id, orders, control, lambda line: logger.debug("%s", line))
    code = orders.exit_code
    control.farewell(code)
    return code


def ready_line(options: WorkerOptions, worker_id: str, using: str) -> str:
    """What a worker says when it begins to admit."""
    queues = ",".join(f"{name}:{weight}" for name, weight in options.queues.items())
    version = f", code {options.code_version}" if options.code_version else ""
    processes = f"{options.processes} x " if options.processes > 1 else ""
    return (
        f"worker {worker_id} ready: queues {queues}, {processes}{options.threads} threads, "
        f"database {using} ({connections[using].vendor}), {len(registry.kinds())} kinds{version}"
    )
