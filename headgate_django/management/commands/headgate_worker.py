"""``manage.py headgate_worker``: run jobs."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from headgate_django.exceptions import ConfigurationError
from headgate_django.worker.options import OPTIONS, resolve
from headgate_django.worker.process import run_worker
from headgate_django.worker.shutdown import Shutdown

EPILOG = """
Each option can also be given as an environment variable (shown in brackets) or in settings:
HEADGATE = {"WORKER": {"THREADS": 8, "QUEUES": "critical:6,default:3"}}. A flag beats the variable, which beats the
setting.

SIGTERM or SIGINT: finish what runs, then exit 0. A second one: give running jobs back now, which costs them
nothing.
"""


class Command(BaseCommand):
    """Parses; the work is in ``headgate_django.worker``."""

    help = "Runs jobs: asks the gate what may run now, runs it, and reports how it ended."
    requires_system_checks = ()

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser(prog_name, subcommand, epilog=EPILOG, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        group = parser.add_argument_group("worker")
        for option in OPTIONS:
            text = f"{option.help} [{option.variable}]"
            if option.is_switch:
                group.add_argument(option.flag, dest=option.name, action=argparse.BooleanOptionalAction, help=text)
            else:
                default = f" Default: {option.default}." if option.default != "" else ""
                group.add_argument(option.flag, dest=option.name, metavar=option.metavar, help=text + default)

    def handle(self, **flags: Any) -> None:
        try:
            options = resolve(flags)
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        shutdown = Shutdown(options.shutdown_timeout / 1000)
        shutdown.install()
        _log_to_stderr(flags["verbosity"])
        try:
            idle = run_worker(options, shutdown, self._announce)
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        finally:
            shutdown.uninstall()
        if not idle:
            # A handler is still running although its lease was given back: nothing of it may go on.
            sys.stderr.flush()
            os._exit(0)

    def _announce(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _log_to_stderr(verbosity: int) -> None:
    logger = logging.getLogger("headgate_django")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel({0: logging.ERROR, 1: logging.INFO}.get(verbosity, logging.DEBUG))
