"""The subcommands of ``manage.py headgate``, one a file.

Each has ``HELP``, ``add_arguments(parser)`` and ``handle(write, **options)``. A new one is a file here and a row
of ``SUBCOMMANDS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from django.core.management.base import CommandParser

from headgate_django.management.subcommands import explain, health, simulate, workers
from headgate_django.management.tabulate import Write


class Subcommand(Protocol):
    """A module of this package."""

    HELP: str

    def add_arguments(self, parser: CommandParser) -> None:
        """Its arguments."""

    def handle(self, write: Write, **options: Any) -> None:
        """Do it. Raises CommandError or ConfigurationError; SystemExit where the answer is an exit code."""


SUBCOMMANDS: Mapping[str, Subcommand] = {
    "explain": explain,
    "health": health,
    "simulate": simulate,
    "workers": workers,
}
