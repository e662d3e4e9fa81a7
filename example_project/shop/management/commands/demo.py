"""``manage.py demo``: the shop at work, with a real worker and the admin."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from example_project.shop.demo import summary
from example_project.shop.demo.check import CheckFailed, check_over_http
from example_project.shop.demo.fleet import ProcessFailed
from example_project.shop.demo.screen import Screen
from example_project.shop.demo.stage import Stage
from example_project.shop.demo.stop import Interrupted, Stop
from example_project.shop.demo.words import GOODBYE, SETTLED, where_to_look

CHECK_SECONDS = 55
"""Together with what stopping takes, less than a minute."""


class Command(BaseCommand):
    """Runs until Ctrl-C; with --check until everything is as it must be."""

    help = (
        "Migrate, enqueue a few hundred jobs, start a worker and the site on 127.0.0.1, and show what becomes of "
        "them. Ctrl-C stops everything."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--check",
            action="store_true",
            help="Run without an audience for at most a minute: exit 0 only if every job ends as it must.",
        )
        parser.add_argument(
            "--seconds",
            type=float,
            default=CHECK_SECONDS,
            help="How long --check may take on a slow machine. Default: %(default)s.",
        )

    def handle(self, *, check: bool, seconds: float, **options: Any) -> None:
        if not hasattr(os, "fork"):
            raise CommandError("the demo kills processes of its worker: it needs a system that can fork")
        screen = Screen(self.stdout)
        stop = Stop(seconds if check else None)
        stop.install()
        stage = Stage(stop, screen.say, screen.show)
        (self._check if check else self._perform)(stage, screen)

    def _perform(self, stage: Stage, screen: Screen) -> None:
        try:
            stage.set_up()
            screen.say(where_to_look(stage))
            stage.watch(stage.is_settled)
            screen.say(SETTLED)
            stage.watch(lambda counts: False)
        except Interrupted:
            screen.say("stopping …")
        except (ProcessFailed, DatabaseError) as error:
            raise CommandError(str(error)) from error
        finally:
            screen.end()
            for problem in stage.fleet.shut_down():
                screen.say(problem)
        screen.say(GOODBYE)

    def _check(self, stage: Stage, screen: Screen) -> None:
        problems: list[str] = []
        try:
            stage.set_up()
            stage.watch(stage.is_settled)
            check_over_http(stage)
        except Interrupted:
            problems = ["interrupted"]
        except TimeoutError:
            problems = ["not done in time"]
        except (ProcessFailed, CheckFailed, DatabaseError) as error:
            problems = [str(error)]
        finally:
            screen.end()
            problems += stage.fleet.shut_down()
        if stage.script.expected:
            counts = summary.count_jobs(stage.script.token)
            for line in summary.table(counts, stage.script.expected):
                screen.say(line)
            problems += summary.differences(counts, stage.script.expected)
        if problems:
            raise CommandError("\n".join(problems))
        screen.say("every job is where it must be")
