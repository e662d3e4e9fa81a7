"""``headgate simulate``: try policies on synthetic jobs in virtual time."""

from __future__ import annotations

import time
import tomllib
from dataclasses import replace
from importlib.resources import files
from json import dumps
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from headgate_django.core.simulation.reading import parse
from headgate_django.core.simulation.report import Report, simulate
from headgate_django.core.simulation.scenario import Scenario
from headgate_django.core.suggestion import suggestion
from headgate_django.exceptions import ConfigurationError
from headgate_django.management.tabulate import Write, duration, number, percentage, tabulate

HELP = "Simulates a scenario in virtual time, with the gate's own decisions and no database."
SHIPPED = files("headgate_django") / "scenarios"


def add_arguments(parser: CommandParser) -> None:
    """The options of the subcommand."""
    parser.add_argument(
        "scenario", nargs="?", help="A TOML file, or the name of a shipped scenario. Without it: lists those."
    )
    parser.add_argument("--seed", type=int, help="Another seed than the scenario's: other jobs of the same kind.")
    parser.add_argument("--json", action="store_true", help="Print the numbers as JSON.")


def handle(write: Write, scenario: str | None = None, seed: int | None = None, **options: Any) -> None:
    """Run it and print the report. Raises CommandError for a file that cannot be read or has no sense."""
    if scenario is None:
        _list(write)
        return
    found = load(scenario)
    if seed is not None:
        found = replace(found, seed=seed)
    began = time.monotonic()
    report = simulate(found)
    if options.get("json"):
        write(dumps(report, indent=2))
        return
    _print(found, report, write)
    write(f"\nsimulated in {time.monotonic() - began:.1f} s")


def load(name: str) -> Scenario:
    """The scenario in this file, or the shipped one of this name."""
    shipped = SHIPPED / f"{name}.toml"
    source = Path(name) if name.endswith(".toml") or not shipped.is_file() else shipped
    try:
        declared = tomllib.loads(source.read_text("utf-8"))
    except FileNotFoundError as error:
        raise CommandError(f"there is no file {name!r}" + suggestion(name, shipped_names())) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CommandError(f"{name} cannot be read: {error}") from error
    try:
        return parse(declared)
    except ConfigurationError as error:
        raise CommandError(f"{name}: {error}") from error


def shipped_names() -> list[str]:
    """The scenarios that come with the package."""
    return sorted(entry.name.removesuffix(".toml") for entry in SHIPPED.iterdir() if entry.name.endswith(".toml"))


def _list(write: Write) -> None:
    for name in shipped_names():
        write(f"{name}\n    {load(name).title}")


def _print(scenario: Scenario, report: Report, write: Write) -> None:
    write(scenario.title)
    if scenario.description:
        write(scenario.description.strip())
    write(
        f"\n{number(report['jobs'])} jobs on {number(report['slots'])} slots, {duration(report['seconds'])} of"
        f" virtual time, seed {report['seed']}: {percentage(report['utilisation'])} of the slots used,"
        f" {report['throughput']:.1f} jobs a second, {number(report['left'])} left"
    )
    for line in tabulate(_tenants(report)):
        write(line)
    for title, rows in (
        ("starts while every queue had work", _queues(report)),
        ("budgets: the most tokens in any window", _budgets(report)),
        ("ceilings: the most at the same time", _ceilings(report)),
    ):
        if rows:
            write(f"\n{title}")
            for line in tabulate(rows):
                write(line)


def _tenants(report: Report) -> list[dict[str, str]]:
    return [
        {
            "tenants": f"{load['name']} ({number(load['count'])})" if load["count"] > 1 else load["name"],
            "jobs": number(load["arrived"]),
            "refused": number(load["refused"] + sum(load["removed"].values())),
            "completed": number(load["completed"]),
            **{f"wait {name}": duration(seconds) for name, seconds in load["wait"].items()},
            "share": percentage(load["share"]),
            "entitled": percentage(load["entitled"]),
        }
        for load in report["tenants"]
    ]


def _queues(report: Report) -> list[dict[str, str]]:
    return [
        {
            "queue": queue["name"],
            "starts": number(queue["started"]),
            "share": percentage(queue["share"]),
            "entitled": percentage(queue["entitled"]),
        }
        for queue in report["queues"]
    ]


def _budgets(report: Report) -> list[dict[str, str]]:
    return [
        {
            "rate class": budget["rate_class"],
            "budget": budget["budget"],
            "most": number(budget["most"]),
            "bound": number(budget["bound"]),
            "": "held" if budget["held"] else "EXCEEDED",
        }
        for budget in report["budgets"]
    ]


def _ceilings(report: Report) -> list[dict[str, str]]:
    return [
        {
            "limit": ceiling["name"],
            "most": number(ceiling["most"]),
            "ceiling": number(ceiling["ceiling"]),
            "": "held" if ceiling["held"] else "EXCEEDED",
        }
        for ceiling in report["ceilings"]
    ]
