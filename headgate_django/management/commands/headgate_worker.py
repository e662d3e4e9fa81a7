"""``manage.py headgate_worker``: run jobs."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from headgate_django.exceptions import ConfigurationError
from headgate_django.worker.options import OPTIONS, WorkerOptions, resolve
from headgate_django.worker.process import serve_alone
from headgate_django.worker.streams import fill_in
from headgate_django.worker.supervisor.inbox import Inbox
from headgate_django.worker.supervisor.reload import RELOADED, Reloader, follow_parent
from headgate_django.worker.supervisor.supervisor import Supervisor

EPILOG = """
Each option can also be given as an environment variable (shown in brackets) or in settings:
HEADGATE = {"WORKER": {"THREADS": 8, "QUEUES": "critical:6,default:3"}}. A flag beats the variable, which beats the
setting.

SIGTERM or SIGINT: finish what runs, then exit 0. A second one: give running jobs back now, which costs them
nothing. SIGQUIT: kill everything now. SIGTSTP or SIGUSR1: admit no more, go on with what runs. SIGUSR2: log where
the handlers are.
"""


class Command(BaseCommand):
    """Parses; the work is in ``headgate_django.worker``."""

    help = "Runs jobs: asks the gate what may run now, runs it, and reports how it ended."
    requires_system_checks = ()
    is_program = False
    """Whether the interpreter ends with the command."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fill_in()  # first of all: even this class keeps the standard output
        super().__init__(*args, **kwargs)

    def run_from_argv(self, argv: list[str]) -> None:
        self.is_program = True
        super().run_from_argv(argv)

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
        inbox = Inbox()
        inbox.install()  # before anything else, so that no signal of the start-up is lost
        try:
            code = self._serve(inbox, flags)
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        finally:
            if self.is_program:
                inbox.retire()
            else:
                inbox.uninstall()
        if code:
            sys.exit(code)

    def _serve(self, inbox: Inbox, flags: dict[str, Any]) -> int:
        options = resolve(flags)
        if options.database and options.database not in connections:
            raise ConfigurationError(f"--database {options.database!r}: DATABASES has no such alias")
        _log_to_stderr(flags["verbosity"])
        if options.reload and RELOADED not in os.environ:
            return Reloader(inbox).run()
        if options.reload:
            follow_parent()
        if options.processes and hasattr(os, "fork"):
            self._announce(f"worker {options.name} starting, pid {os.getpid()}")
            return Supervisor(options, inbox, self._announce).run()
        return self._serve_alone(inbox, options)

    def _serve_alone(self, inbox: Inbox, options: WorkerOptions) -> int:
        if options.processes:
            self._announce("this platform cannot fork: one process, no supervisor, no isolation")
        if not serve_alone(options, self._announce, inbox.take):
            # A handler is still running although its lease was given back: nothing of it may go on.
            sys.stderr.flush()
            os._exit(0)
        return 0

    def _announce(self, line: str) -> None:
        with contextlib.suppress(OSError):  # whoever was to read it has gone; the jobs have not
            self.stdout.write(line)
            self.stdout.flush()


def _log_to_stderr(verbosity: int) -> None:
    logger = logging.getLogger("headgate_django")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel({0: logging.ERROR, 1: logging.INFO}.get(verbosity, logging.DEBUG))
