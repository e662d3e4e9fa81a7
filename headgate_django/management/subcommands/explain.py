"""``headgate explain``: why is this job not running?"""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from typing import Any

from django.core.management.base import CommandError, CommandParser

from headgate_django.gate.explain import explain
from headgate_django.management.tabulate import Write, duration
from headgate_django.models.job import Job
from headgate_django.models.store import alias

HELP = "Says why a job is not running: the first step of the gate that says no."


def add_arguments(parser: CommandParser) -> None:
    """The options of the subcommand."""
    parser.add_argument("job", help="The job's id.")
    parser.add_argument("--json", action="store_true", help="Print the answer as JSON.")


def handle(write: Write, job: str = "", **options: Any) -> None:
    """Print the answer. Raises CommandError when there is no such job."""
    found = Job.objects.using(alias()).filter(pk=job).first() if "\0" not in job else None
    if found is None:
        raise CommandError(f"there is no job with id {job!r}")
    answer = explain(found)
    if options.get("json"):
        write(dumps({"job": found.pk, "state": found.state, **asdict(answer)}, default=str))
        return
    verdict = "may run at the next admit" if answer.admissible else f"blocked by: {answer.blocked_by}"
    write(f"{found}: {found.state}, {verdict}")
    write(str(answer.detail))
    if answer.eta_ms is not None:
        write(f"expected in {duration(answer.eta_ms / 1000)}")
