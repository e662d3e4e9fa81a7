"""Jobs in processes of their own whose worker or supervisor is gone: they are innocent, and never left over."""

from __future__ import annotations

import os
import signal

import pytest
from django.db.models import Sum

from headgate_django.core.states import State
from headgate_django.models import Job
from tests.sample import hazards, jobs
from tests.sample.models import Run
from tests.support.processes import terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pid_of(name: str) -> int:
    wait_until(lambda: Run.objects.filter(name=name).exists(), f"{name} entered")
    return Run.objects.get(name=name).pid


def test_isolated_jobs_that_notice_before_their_supervisor_that_their_worker_dies_are_not_blamed():
    with worker("--threads", "4", "--lease", "300", "--no-duties") as process:
        innocent = [jobs.alone.enqueue("sleep", 300).pk for _ in range(3)]
        wait_until(lambda: Run.objects.filter(name="sleep").count() == 3, "all entered")
        [child] = process.children()
        guilty = hazards.shares.enqueue("hangs up")
        wait_until(lambda: process.cells() == [], "they have ended")
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: not Job.objects.filter(fence=1, state=State.RUNNING).exists(), "taken back")
        terminate(process)

    guilty.refresh_from_db()
    assert guilty.crash_attempt == 1
    charged = Job.objects.filter(pk__in=innocent).aggregate(Sum("crash_attempt"), Sum("attempt"))
    assert charged == {"crash_attempt__sum": 0, "attempt__sum": 0}


def test_without_a_supervisor_an_isolated_job_is_given_back_only_when_all_that_it_started_is_dead():
    held, grouped = jobs.alone.enqueue("hold", 120), jobs.alone.enqueue("group", 300)
    alive_when_given_back: dict[str, list[int]] = {}
    with worker("--shutdown-timeout", "0.5", "--lease", "300", "--no-duties") as process:
        pids = {held.pk: [pid_of("hold")], grouped.pk: [pid_of("group"), pid_of("program")]}
        [child] = process.children()
        process.signal(signal.SIGKILL)
        while len(alive_when_given_back) < 2 and is_alive(child):
            for pk in Job.objects.exclude(state=State.RUNNING).values_list("pk", flat=True):
                alive_when_given_back.setdefault(pk, [pid for pid in pids[pk] if is_alive(pid)])
        wait_until(lambda: not is_alive(child), "the worker has ended")
        left = [pid for own in pids.values() for pid in own if is_alive(pid)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)

    assert left == []
    assert not any(alive_when_given_back.values())
    totals = Job.objects.aggregate(Sum("interruptions"), Sum("crash_attempt"))
    assert totals == {"interruptions__sum": 2, "crash_attempt__sum": 0}


def test_a_process_whose_worker_and_supervisor_are_gone_ends_with_all_that_it_started():
    jobs.alone.enqueue("group", 300)
    with worker("--lease", "300", "--no-duties") as process:
        pids = [pid_of(name) for name in ("group", "program")]
        for pid in (process.pid, *process.children()):
            os.kill(pid, signal.SIGKILL)

        wait_until(lambda: not any(is_alive(pid) for pid in pids), "both have ended")
