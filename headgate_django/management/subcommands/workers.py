"""``headgate workers``: who works, how busy the fleet is, and commands to workers."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Mapping, Sequence
from json import dumps
from typing import Any

from django.core.management.base import CommandError, CommandParser

from headgate_django.control.fleet import MAX_WORKERS, Fleet, command, fleet, processes, waiting_for
from headgate_django.core.commands import Command
from headgate_django.management.arguments import seconds
from headgate_django.management.tabulate import Write, duration, percentage, printable, size, tabulate
from headgate_django.models.fleet import Worker

HELP = "Lists the workers, or tells them what to do."
EFFECTS: Mapping[Command, str] = {
    Command.QUIET: "Admit nothing more. What runs goes on.",
    Command.RESUME: "Admit again.",
    Command.RESTART: "Finish what runs, however long it takes, then be replaced by a fresh process.",
    Command.TERMINATE: "Stop as on SIGTERM, and do not come back.",
    Command.RESIGN: "Give the duties back and take none until a restart.",
}
LOOK_EVERY = 0.2
"""Seconds between two looks for acknowledgements."""


def add_arguments(parser: CommandParser) -> None:
    """The actions; without one it is ``list``."""
    _listing(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    _listing(actions.add_parser("list", help="The workers and the fleet. The default."), argparse.SUPPRESS)
    for one, effect in EFFECTS.items():
        action = actions.add_parser(one.value, help=effect, description=effect)
        action.add_argument("names", nargs="*", metavar="ID", help="A worker, or a supervisor: all its processes.")
        action.add_argument("--all", action="store_true", dest="everyone", help="All live workers.")
        action.add_argument(
            "--wait", type=seconds, metavar="SECONDS", help="Wait so long for everyone to acknowledge."
        )
        action.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="Print the answer as JSON."
        )


def _listing(parser: CommandParser, default: Any = False) -> None:
    parser.add_argument("--json", action="store_true", default=default, help="Print the answer as JSON.")
    parser.add_argument(
        "-v", "--verbose", action="store_true", default=default, dest="jobs", help="Show what each worker runs."
    )


def handle(write: Write, action: str | None = None, **options: Any) -> None:
    """List, or tell. Raises SystemExit when somebody was not told, or did not acknowledge in time."""
    if action in (None, "list"):
        shows_jobs = options["jobs"] or options.get("verbosity", 1) > 1
        _list(fleet(current_jobs=shows_jobs or options["json"]), write, as_json=options["json"], jobs=shows_jobs)
        return
    _tell(Command(action), write, **options)


def _tell(
    order: Command, write: Write, *, names: list[str], everyone: bool, wait: float | None, **options: Any
) -> None:
    if bool(names) == everyone:
        raise CommandError("name workers or supervisors, or say --all")
    living = [worker.id for worker in fleet().live]
    ids = living if everyone else processes(names)[0]
    report = command(ids if everyone else names, order, actor=None)
    told = [one for one in ids if one in set(living)][:MAX_WORKERS]
    missing = [] if wait is None else _missing(told, order, wait)
    if options["json"]:
        outcome = {"done": report.done, "skipped": dict(report.skipped), "more": report.more}
        waited = {} if wait is None else {"missing": missing}
        write(dumps({"command": order, **outcome, **waited}))
    else:
        write(str(report))
        for one in missing:
            write(f"not acknowledged: {printable(one)}")
    if missing or report.skipped or report.more:
        raise SystemExit(1)


def _missing(ids: Sequence[str], order: Command, patience: float) -> list[str]:
    end = time.monotonic() + patience
    while (missing := waiting_for(ids, order)) and time.monotonic() < end:
        threading.Event().wait(LOOK_EVERY)
        ids = missing
    return missing


def _list(found: Fleet, write: Write, *, as_json: bool, jobs: bool) -> None:
    if as_json:
        workers = [_as_data(worker, found.at_ms) for worker in found.workers]
        write(dumps({"workers": workers, "fleet": _sums(found)}))
        return
    if found.workers:
        for line in tabulate([_row(worker, found.at_ms) for worker in found.workers]):
            write(line)
    rows = [row for worker in found.workers for row in _running(worker, found.at_ms)] if jobs else []
    if rows:
        write("")
        for line in tabulate(rows):
            write(line)
    for line in _summary(found):
        write(line)


def _row(worker: Worker, now_ms: int) -> dict[str, str]:
    row = {
        "worker": worker.id,
        "supervisor": worker.supervisor or "-",
        "host": worker.hostname,
        "pid": str(worker.pid),
        "code": worker.code_version or "-",
        "queues": ",".join(f"{name}:{weight}" for name, weight in sorted(worker.queues.items())),
        "status": worker.status if worker.alive_at(now_ms) else "silent",
        "in flight": f"{worker.in_flight}/{worker.capacity}",
        "stuck": str(worker.stuck),
        "used": percentage(worker.utilisation),
        "empty polls": percentage(worker.empty_poll_ratio),
        "memory": size(worker.rss_bytes),
        "heard of": f"{duration(max(0, now_ms - worker.heartbeat_at_ms) / 1000)} ago",
        "command": _order(worker),
    }
    return {name: printable(value) for name, value in row.items()}


def _order(worker: Worker) -> str:
    if worker.command:
        return f"{worker.command}: waits"
    return f"{worker.acknowledged}: obeyed" if worker.acknowledged else "-"


def _running(worker: Worker, now_ms: int) -> list[dict[str, str]]:
    return [
        {
            "on": printable(worker.id),
            "job": printable(job["id"]),
            "kind": printable(job["kind"]),
            "for": duration(max(0, now_ms - job["started_at_ms"]) / 1000),
        }
        for job in worker.current_jobs
    ]


def _summary(found: Fleet) -> list[str]:
    live = len(found.live)
    served = ", ".join(f"{printable(name)} {number}" for name, number in found.served.items())
    lines = [
        f"fleet: {live}{'+' if found.more else ''} live, {found.stale} silent, {found.in_flight} of"
        f" {found.capacity} slots in use ({percentage(found.utilisation)}),"
        f" {percentage(found.empty_poll_ratio)} of recent polls found nothing"
    ]
    return [*lines, f"live workers by queue: {served}"] if served else lines


def _sums(found: Fleet) -> dict[str, Any]:
    return {
        "live": len(found.live),
        "silent": found.stale,
        "more": found.more,
        "capacity": found.capacity,
        "in_flight": found.in_flight,
        "utilisation": found.utilisation,
        "empty_poll_ratio": found.empty_poll_ratio,
        "queues": dict(found.served),
    }


def _as_data(worker: Worker, now_ms: int) -> dict[str, Any]:
    names = [field.name for field in Worker._meta.concrete_fields]
    return {
        **{name: getattr(worker, name) for name in names},
        "alive": worker.alive_at(now_ms),
        "utilisation": worker.utilisation,
        "empty_poll_ratio": worker.empty_poll_ratio,
        "heartbeat_age_ms": max(0, now_ms - worker.heartbeat_at_ms),
    }
