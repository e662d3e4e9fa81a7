"""The stage: the database, the worker and the site of one run, and the loop that watches them."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from django.core.management import call_command

from example_project.shop.demo import login, summary
from example_project.shop.demo.fleet import Fleet
from example_project.shop.demo.script import Counts, Script
from example_project.shop.demo.site import HOST, PORT, Browser
from example_project.shop.demo.stop import Stop

WORKER = (
    *("--queues", "critical:6,default:3,imports:2,reports:2"),
    *("--processes", "2", "--threads", "6"),
    *("--shutdown-timeout", "5", "--poll-interval", "0.5", "--timeout-grace", "1"),
)
ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"


class Stage:
    """One run of the demo."""

    def __init__(self, stop: Stop, say: Callable[[str], None], show: Callable[[str], None]) -> None:
        self.stop, self.say, self._show = stop, say, show
        self.script = Script("".join(secrets.choice(ALPHABET) for _ in range(6)))
        self.fleet = Fleet(stop, say)
        self.username = self.password = ""
        self.browser = Browser("")

    def set_up(self) -> None:
        """Migrate, make a login, store the jobs, start the site and the worker."""
        call_command("migrate", verbosity=0, interactive=False)
        self.username, self.password = login.make_login()
        self.stop.wait(0)
        if left := self.script.clear_the_stage():
            self.say(f"{left} imports of an interrupted run are cancelled")
        jobs = self.script.enqueue()
        self.say(f"{jobs} jobs enqueued; their ids begin with {self.script.token}")
        self.browser = Browser(self.fleet.start_site(HOST, PORT))
        self.fleet.start_worker(*WORKER)

    def watch(self, until: Callable[[Counts], bool]) -> Counts:
        """Look after the processes and show where the jobs stand, until they stand as wanted."""
        while True:
            counts = summary.count_jobs(self.script.token)
            self._show(summary.line(counts))
            if until(counts):
                return counts
            self.stop.wait(1)
            self.fleet.look_after()

    def is_settled(self, counts: Counts) -> bool:
        """Whether every job is where the script wants it."""
        return not summary.differences(counts, self.script.expected)
