"""``headgate health``: is the queue well? For monitoring: the answer is the exit code."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from typing import Any

from django.core.management.base import CommandParser

from headgate_django.control.health import Health, Thresholds, examine
from headgate_django.management.arguments import seconds, whole_number
from headgate_django.management.tabulate import Write

HELP = "Examines the queue. Exit code 0: well; 1: a check failed; 2: the database does not answer."
DEFAULT = Thresholds()
UNHEALTHY, UNREACHABLE = 1, 2


def add_arguments(parser: CommandParser) -> None:
    """The thresholds."""
    parser.add_argument(
        "--min-workers",
        type=whole_number,
        default=DEFAULT.min_workers,
        metavar="N",
        help="Fail below N live workers.",
    )
    parser.add_argument(
        "--max-wait",
        type=seconds,
        default=(DEFAULT.max_wait_ms or 0) / 1000,
        metavar="SECONDS",
        help="Fail when a job that could run, of a queue that is not paused, waits longer; 0 does not look.",
    )
    parser.add_argument(
        "--max-dead",
        type=whole_number,
        default=DEFAULT.max_dead,
        metavar="N",
        help="Fail when more than N jobs were archived in the last hour. Without it nobody looks.",
    )
    parser.add_argument(
        "--max-stuck",
        type=whole_number,
        default=DEFAULT.max_stuck,
        metavar="N",
        help="Fail when more than N threads are stuck in a handler whose time is up.",
    )
    parser.add_argument("--json", action="store_true", help="Print the report as JSON.")


def handle(
    write: Write,
    min_workers: int = DEFAULT.min_workers,
    max_wait: float = 0,
    max_dead: int | None = None,
    max_stuck: int = DEFAULT.max_stuck,
    **options: Any,
) -> None:
    """Print one line a check. Raises SystemExit unless all is well."""
    thresholds = Thresholds(
        min_workers=min_workers, max_wait_ms=round(max_wait * 1000) or None, max_dead=max_dead, max_stuck=max_stuck
    )
    found = examine(thresholds)
    if options.get("json"):
        checks = [asdict(check) for check in found.checks]
        write(dumps({"healthy": found.healthy, "reachable": found.reachable, "checks": checks}))
    else:
        _print(found, write)
    if not found.healthy:
        raise SystemExit(UNHEALTHY if found.reachable else UNREACHABLE)


def _print(found: Health, write: Write) -> None:
    widest = max(len(check.name) for check in found.checks)
    for check in found.checks:
        write(f"{check.level:<7}  {check.name:<{widest}}  {check.detail}")
