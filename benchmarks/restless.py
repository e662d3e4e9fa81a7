"""A real worker that polls an empty queue without a pause worth mentioning, for soaks.

It is ``headgate_worker`` with all of its processes and threads, but for one number: the longest pause between two
polls is 1 ms, where the command line allows no less than 50. So hours of idleness pass in minutes. Each poll is a
whole turn of the loop of the runtime: wait, listen, ask the gate, look at the timers.

    python -m benchmarks.restless --threads 4
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import replace

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")

import django

django.setup()

from django.core.management import CommandParser

from headgate_django.management.commands.headgate_worker import Command
from headgate_django.worker.options import resolve
from headgate_django.worker.supervisor.inbox import Inbox
from headgate_django.worker.supervisor.supervisor import Supervisor

POLL_MS = 1


def main() -> int:
    parser = CommandParser(prog="python -m benchmarks.restless")
    Command().add_arguments(parser)
    flags = vars(parser.parse_args())
    inbox = Inbox()
    inbox.install()
    logging.basicConfig(level=logging.WARNING)
    options = replace(resolve(flags), poll_interval=POLL_MS)
    return Supervisor(options, inbox, lambda line: print(line, flush=True)).run()


if __name__ == "__main__":
    sys.exit(main())
