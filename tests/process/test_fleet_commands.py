"""Commands through the register, given to real processes: obeyed, acknowledged, and what comes back afterwards."""

from __future__ import annotations

import pytest

from headgate_django.control.fleet import command, waiting_for
from headgate_django.core.commands import Command
from headgate_django.core.states import State
from headgate_django.models import Duty, Job, Worker
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import Process, terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

LEASE = ("--lease", "1.5")


def tell(order: Command, *names: str) -> list[str]:
    """Give the order; the ids of those who were told, all of whom have obeyed."""
    ids = list(Worker.objects.filter(supervisor__in=names).values_list("pk", flat=True)) or list(names)
    assert command(names, order, actor=None).done == len(ids)
    wait_until(lambda: waiting_for(ids, order) == [], f"{order} is acknowledged")
    return ids


def is_completed(job: Job) -> bool:
    return Job.objects.filter(pk=job.pk, state=State.COMPLETED).exists()


def registered(count: int) -> None:
    wait_until(lambda: Worker.objects.count() == count, f"{count} are in the register")


def test_a_quiet_worker_admits_nothing_until_it_is_told_to_resume():
    with worker("--name", "w", *LEASE) as process:
        registered(1)
        [one] = tell(Command.QUIET, "w")
        wait_until(lambda: Worker.objects.filter(pk=one, status="quiet").exists(), "the register says quiet")
        job = jobs.ok.enqueue()
        tell(Command.RESUME, "w")
        wait_until(lambda: is_completed(job), "completed")
        row = Worker.objects.get()
        assert terminate(process) == 0, process.output

    assert (row.command, row.acknowledged) == ("", "resume")
    job.refresh_from_db()
    assert job.attempted_at_ms >= row.commanded_at_ms


def test_a_restart_lets_what_runs_finish_however_long_it_takes_and_a_fresh_process_comes():
    job = jobs.once.enqueue("long", 3.0)
    with worker("--name", "w", "--shutdown-timeout", "0", *LEASE) as process:
        wait_until(lambda: Run.objects.count() == 1, "entered")
        [first] = process.children()
        tell(Command.RESTART, "w")
        wait_until(lambda: is_completed(job), "what ran has finished")
        wait_until(lambda: process.children() not in ([], [first]), "a fresh process has come")
        later = jobs.ok.enqueue()
        wait_until(lambda: is_completed(later), "it works")
        assert terminate(process) == 0, process.output

    job.refresh_from_db()
    assert (job.fence, job.interruptions, job.crash_attempt) == (1, 0, 0)
    assert ") died" not in process.output


def test_a_restart_ends_a_quiet_time():
    with worker("--name", "w", *LEASE) as process:
        registered(1)
        tell(Command.QUIET, "w")
        tell(Command.RESTART, "w")
        job = jobs.ok.enqueue()
        wait_until(lambda: is_completed(job), "completed by a fresh process")
        assert terminate(process) == 0, process.output


def test_a_terminated_process_does_not_come_back_and_when_all_are_the_command_exits_in_order():
    with worker("--name", "w", "--processes", "2", *LEASE) as process:
        registered(2)
        first, second = Worker.objects.order_by("pk").values_list("pk", flat=True)
        pid = Worker.objects.get(pk=second).pid
        tell(Command.TERMINATE, first)
        wait_until(lambda: process.children() == [pid], "one is left")
        job = jobs.ok.enqueue()
        wait_until(lambda: is_completed(job), "it goes on")
        assert process.children() == [pid]
        tell(Command.TERMINATE, second)
        assert process.wait() == 0, process.output

    assert Worker.objects.count() == 0
    assert ") died" not in process.output


def test_a_worker_that_resigns_gives_its_duties_up_and_goes_on_with_jobs():
    with worker("--name", "w", *LEASE) as process:
        registered(1)
        wait_until(lambda: Duty.objects.exclude(holder="").exists(), "it has a duty")
        tell(Command.RESIGN, "w")
        wait_until(lambda: not Duty.objects.exclude(holder="").exists(), "it has none")
        job = jobs.ok.enqueue()
        wait_until(lambda: is_completed(job), "completed")
        assert not Duty.objects.exclude(holder="").exists()
        assert terminate(process) == 0, process.output


@pytest.mark.parametrize("order", list(Command))
def test_a_command_to_a_supervisor_reaches_all_its_processes(order):
    with worker("--name", "w", "--processes", "2", *LEASE) as process:
        registered(2)
        told = tell(order, "w")
        assert len(told) == 2
        _end(process, order)


def _end(process: Process, order: Command) -> None:
    if order is Command.TERMINATE:
        assert process.wait() == 0, process.output
    else:
        assert terminate(process) == 0, process.output
