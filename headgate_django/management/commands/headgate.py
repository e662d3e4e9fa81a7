"""``manage.py headgate SUBCOMMAND``: what operators ask of the queue."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import InterfaceError, OperationalError

from headgate_django.exceptions import ConfigurationError
from headgate_django.management.subcommands import SUBCOMMANDS
from headgate_django.models.store import alias


class Command(BaseCommand):
    """Finds the subcommand."""

    help = "Operates and examines the job queue."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parsers = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", required=True)
        for name, subcommand in SUBCOMMANDS.items():
            subcommand.add_arguments(parsers.add_parser(name, help=subcommand.HELP, description=subcommand.HELP))

    def handle(self, subcommand: str, **options: Any) -> None:
        try:
            SUBCOMMANDS[subcommand].handle(self.stdout.write, **options)
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        except (OperationalError, InterfaceError):
            # What the driver says may repeat the connection string.
            raise CommandError(f"database {alias()!r} does not answer, or is not migrated", returncode=2) from None
