"""The reference page of ``manage.py headgate``, from the parsers of its subcommands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from django.core.management.base import CommandParser

from docs.pages.markdown import page, table
from headgate_django.management.subcommands import SUBCOMMANDS


def commands() -> str:
    """docs/reference/commands.md."""
    parts = [part for name in SUBCOMMANDS for part in _subcommand(name)]
    return page(
        "Commands",
        "headgate_django/management/subcommands/",
        "`python manage.py headgate SUBCOMMAND` examines and operates the queue. Whoever runs it is trusted: it "
        "asks for no permission. What it changes leaves a line in the logger `headgate_django.control`. When the "
        "database does not answer, the exit code is 2. Workers are run by [`headgate_worker`](worker.md).",
        *parts,
    )


def _subcommand(name: str) -> Iterator[str]:
    parser = CommandParser(prog=f"headgate {name}")
    SUBCOMMANDS[name].add_arguments(parser)
    yield f"## `{name}`"
    yield SUBCOMMANDS[name].HELP
    yield from _options(parser)
    known = {option for option, _, _ in _rows(parser)}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from _actions(name, action, known)


def _actions(name: str, action: argparse._SubParsersAction, known: set[str]) -> Iterator[str]:
    helps = {choice.dest: choice.help for choice in action._choices_actions}
    yield table(("Action", "Effect"), ((f"`{name} {one}`", text) for one, text in helps.items()))
    rows = {row[0]: row for parser in action.choices.values() for row in _rows(parser) if row[0] not in known}
    yield "Options of the actions that change something:"
    yield table(("Option", "Default", "Meaning"), rows.values())


def _options(parser: CommandParser) -> Iterator[str]:
    rows = list(_rows(parser))
    if rows:
        yield table(("Option", "Default", "Meaning"), rows)


def _rows(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, str]]:
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            continue
        value = f" {action.metavar}" if action.metavar else ""
        names = [f"`{name}{value}`" for name in action.option_strings] or [f"`{action.metavar or action.dest}`"]
        shown = type(action.default) in (int, float)
        yield ", ".join(names), f"`{action.default:g}`" if shown else "", str(action.help)
