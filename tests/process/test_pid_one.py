"""As the first process of a container: it inherits every orphan, and signals reach it only because it listens."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headgate_django.core.states import State
from headgate_django.models import Job
from tests.sample import hazards, jobs
from tests.sample.models import Run
from tests.support.processes import Process, environment, wait_until

NEW_NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]

pytestmark = [
    pytest.mark.process,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        not shutil.which("unshare")
        or subprocess.run([*NEW_NAMESPACE, "true"], capture_output=True).returncode != 0,
        reason="this machine gives no pid namespace of its own",
    ),
]


def children_of(parent: int) -> dict[int, str]:
    """The state of each, ended ones included."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, ppid = path.read_text().rpartition(")")[2].split()[:2]
            if int(ppid) == parent:
                found[int(path.parent.name)] = state
    return found


def test_orphans_are_reaped_deaths_noticed_and_a_stop_obeyed():
    enqueued = [
        hazards.shares.enqueue("orphans", 5),
        jobs.alone.enqueue("leave"),
        hazards.shares.enqueue("_exit", 9),
    ]
    command = [*NEW_NAMESPACE, sys.executable, "-m", "django", "headgate_worker", "--lease", "300"]
    process = Process(command, environment())
    try:
        process.wait_for_line("ready")
        [first] = children_of(process.pid)
        assert "pid 1\n" in process.output
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() == len(enqueued), "all completed")
        wait_until(lambda: len(children_of(first)) == 1, "nothing but the worker process is left")
        os.kill(first, signal.SIGTERM)
        assert process.wait() == 0, process.output
    finally:
        process.end()

    assert Run.objects.count() >= len(enqueued)
