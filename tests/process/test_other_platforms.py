"""Where there is no fork and half of the signals do not exist, as on Windows: one process, stopped by Ctrl-C."""

from __future__ import annotations

import signal
import sys

import pytest

from headgate_django.core.states import State
from headgate_django.models import Job
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import Process, environment, wait_until

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

WITHOUT = """
import asyncio, importlib, os, signal, socket, subprocess, sys, time
import django.core.management, psycopg
for module, names in {
    signal: "SIGHUP SIGQUIT SIGTSTP SIGUSR1 SIGUSR2 SIGCHLD SIGKILL SIGSTOP SIGCONT SIGALRM pthread_sigmask "
    "valid_signals pthread_kill SIG_BLOCK SIG_SETMASK",
    os: "fork setsid killpg getpgid getsid waitpid WNOHANG register_at_fork set_blocking getppid",
    socket: "send_fds recv_fds SCM_RIGHTS MSG_DONTWAIT CMSG_LEN CMSG_SPACE",
    time: "tzset",
}.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
for missing in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[missing] = None
import pkgutil
import django
django.setup()
import headgate_django.worker
for found in pkgutil.walk_packages(headgate_django.worker.__path__, "headgate_django.worker."):
    importlib.import_module(found.name)
print("all imported", flush=True)
django.core.management.execute_from_command_line(["manage.py", "headgate_worker", *sys.argv[1:]])
"""


def without_posix(*options: str) -> Process:
    return Process([sys.executable, "-c", WITHOUT, *options], environment())


@pytest.mark.parametrize("options", [(), ("--processes", "0")], ids=["default", "alone"])
def test_a_worker_runs_jobs_and_stops_in_order(options):
    done, job = jobs.ok.enqueue(), jobs.once.enqueue("n", 0.5)
    process = without_posix(*options)
    try:
        process.wait_for_line("all imported")
        process.wait_for_line("ready")
        wait_until(lambda: Run.objects.count() == 1, "entered")
        process.signal(signal.SIGINT)
        assert process.wait() == 0, process.output
    finally:
        process.end()

    assert ("this platform cannot fork" in process.output) == (not options)
    assert "Traceback" not in process.output
    for each in (done, job):
        each.refresh_from_db()
        assert each.state == State.COMPLETED
    assert Job.objects.count() == 2
