"""The supervisor: deaths cost milliseconds, recycling costs nothing, and every signal means one thing."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db.models import Sum

from headgate_django import enqueue_many
from headgate_django.core.states import Event, State
from headgate_django.models import Attempt, Duty, Job, Worker
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.locks import Running
from tests.support.processes import terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]


def completed() -> int:
    return Job.objects.filter(state=State.COMPLETED).count()


def totals() -> tuple[int, int, int]:
    sums = Job.objects.aggregate(Sum("attempt"), Sum("crash_attempt"), Sum("interruptions"))
    return sums["attempt__sum"], sums["crash_attempt__sum"], sums["interruptions__sum"]


def test_each_process_has_an_id_of_its_own_and_the_register_shows_them():
    with worker("--processes", "2", "--threads", "3", "--name", "w1", "--code-version", "abc123") as process:
        wait_until(lambda: Worker.objects.count() == 2, "both are in the register")
        rows = list(Worker.objects.values_list("pid", "supervisor", "capacity", "code_version"))
        assert terminate(process) == 0

    assert len({pid for pid, *_ in rows}) == 2
    assert {row[1:] for row in rows} == {("w1", 3, "abc123")}
    assert process.pid not in {pid for pid, *_ in rows}
    assert Worker.objects.count() == 0
    assert set(Duty.objects.values_list("holder", flat=True)) <= {""}


def test_a_job_for_one_worker_runs_in_any_process_of_that_worker():
    jobs.ok.using(sticky_worker="w1").enqueue()
    jobs.ok.using(sticky_worker="w2").enqueue()

    with worker("--name", "w1", "--burst", ready=False) as process:
        assert process.wait() == 0, process.output

    assert list(Job.objects.order_by("sticky_worker").values_list("state", flat=True)) == [
        State.COMPLETED,
        State.AVAILABLE,
    ]


@contextmanager
def busy_others() -> Iterator[None]:
    """Jobs for others keep coming, each of which every worker hears of."""
    ended = threading.Event()

    def enqueue() -> None:
        while not ended.wait(0.02):
            jobs.ok.using(queue="others").enqueue()

    others = Running(enqueue)
    try:
        yield
    finally:
        ended.set()
        others.result()


def test_a_worker_that_ends_when_nothing_is_left_does_so_whatever_others_are_doing():
    jobs.ok.enqueue()

    with busy_others(), worker("--burst", ready=False) as process:
        assert process.wait() == 0, process.output

    assert set(Job.objects.filter(queue="default").values_list("state", flat=True)) == {State.COMPLETED}


def test_the_jobs_of_a_killed_child_run_again_long_before_their_lease_ends_and_the_attempt_says_why():
    enqueue_many([jobs.once.envelope(f"n{n}", 1.0) for n in range(4)])
    with worker("--threads", "4", "--lease", "300") as process:
        wait_until(lambda: Run.objects.count() == 4, "four handlers entered")
        [child] = process.children()
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: completed() == 4, "all completed")
        assert process.children() != [child]
        assert terminate(process) == 0, process.output

    assert totals() == (0, 4, 0)
    assert Run.objects.filter(finished=True).count() == 4
    message = Attempt.objects.filter(outcome=Event.LOSE_LEASE).first().message
    assert "killed by SIGKILL" in message
    assert "MB resident" in message
    assert f"process {child}" in process.output


def test_while_a_child_is_replaced_the_other_goes_on():
    with worker("--processes", "2", "--threads", "1", "--lease", "300", "--shutdown-timeout", "0") as process:
        first, second = process.children()
        jobs.once.enqueue("victim", 300)
        wait_until(lambda: Run.objects.count() == 1, "entered")
        victim = Run.objects.get().pid
        os.kill(victim, signal.SIGKILL)
        enqueue_many([jobs.recorded.envelope(f"n{n}") for n in range(20)])
        wait_until(lambda: completed() == 20, "the others completed")
        assert terminate(process) == 0

    assert {first, second} >= {victim}


def test_a_process_that_has_run_its_share_is_replaced_and_nothing_is_lost():
    enqueue_many([jobs.recorded.envelope(f"n{n}") for n in range(20)])

    with worker("--max-jobs", "6", "--threads", "3", "--burst", ready=False) as process:
        assert process.wait() == 0, process.output

    assert completed() == 20
    assert Run.objects.count() == 20
    assert len(set(Run.objects.values_list("pid", flat=True))) == 4
    assert totals() == (0, 0, 0)


def test_a_process_that_has_grown_is_replaced_when_its_jobs_have_finished():
    with worker("--max-memory", "200MB", "--threads", "2") as process:
        [first] = process.children()
        enqueue_many([jobs.grows.envelope(200), jobs.once.envelope("beside", 1.5)])
        wait_until(lambda: process.children() not in ([first], []), "replaced")
        wait_until(lambda: completed() == 2, "both completed")
        assert terminate(process) == 0

    assert totals() == (0, 0, 0)
    assert "asked to be replaced" in process.output


@pytest.mark.parametrize("to_group", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_signal_to_the_parent_or_to_the_whole_group_lets_jobs_finish(number, to_group):
    enqueue_many([jobs.once.envelope(f"n{n}", 1.0) for n in range(4)])
    with worker("--processes", "2", "--threads", "1") as process:
        wait_until(lambda: Run.objects.count() == 2, "two handlers entered")
        (process.signal_group if to_group else process.signal)(number)
        assert process.wait() == 0, process.output

    assert completed() == 2
    assert Job.objects.filter(state=State.AVAILABLE, attempt=0, interruptions=0, crash_attempt=0).count() == 2
    assert Worker.objects.count() == 0


def test_a_group_signal_spares_a_job_in_a_process_of_its_own():
    job = jobs.alone.enqueue("sleep", 1.0)
    with worker() as process:
        wait_until(lambda: Run.objects.count() == 1, "entered")
        for pid in (process.pid, *process.children(), *process.cells()):
            os.kill(pid, signal.SIGTERM)
        assert process.wait() == 0, process.output

    job.refresh_from_db()
    assert (job.state, job.crash_attempt, job.interruptions) == (State.COMPLETED, 0, 0)


def test_quit_ends_everything_at_once_and_costs_the_jobs_nothing():
    enqueue_many([jobs.once.envelope(f"n{n}", 300) for n in range(2)])
    jobs.alone.enqueue("sleep", 300)
    with worker("--shutdown-timeout", "300") as process:
        wait_until(lambda: Run.objects.count() == 3, "three handlers entered")
        process.signal(signal.SIGQUIT)
        assert process.wait() == 0, process.output

    assert totals() == (0, 0, 3)
    assert set(Job.objects.values_list("state", flat=True)) == {State.AVAILABLE}


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGUSR1])
def test_a_quiet_worker_admits_no_more_and_finishes_what_runs(number):
    jobs.once.enqueue("before", 1.0)
    with worker("--lease", "1") as process:
        wait_until(lambda: Run.objects.count() == 1, "entered")
        process.signal(number)
        wait_until(lambda: Worker.objects.filter(status="quiet").exists(), "the register says quiet")
        jobs.recorded.enqueue("after")
        wait_until(lambda: completed() == 1, "what ran has finished")
        assert Worker.objects.filter(status="quiet", in_flight=0).count() <= 1
        assert terminate(process) == 0

    assert set(Run.objects.values_list("name", flat=True)) == {"before"}


def test_a_dump_says_where_the_handlers_are():
    jobs.slow.using(timeout=None).enqueue()
    jobs.slow_async.using(timeout=None).enqueue()
    jobs.alone.enqueue("sleep", 300)
    with worker("--shutdown-timeout", "0") as process:
        wait_until(lambda: Run.objects.count() == 2, "entered")
        wait_until(lambda: Job.objects.filter(state=State.RUNNING).count() == 3, "all run")
        process.signal(signal.SIGUSR2)
        for place in ("in slow\n", "in slow_async\n", "in alone\n"):
            process.wait_for_line(place)
        assert terminate(process) == 0


def test_when_the_supervisor_is_killed_its_processes_finish_and_end():
    jobs.once.enqueue("n", 1.0)
    with worker() as process:
        wait_until(lambda: Run.objects.count() == 1, "entered")
        [child] = process.children()
        process.signal(signal.SIGKILL)
        wait_until(lambda: not os.path.exists(f"/proc/{child}"), "the child has ended")

    assert completed() == 1
    assert totals() == (0, 0, 0)


def test_a_process_that_is_not_ready_in_time_is_killed_and_replaced():
    frozen = {"HEADGATE_TEST_CHILD_DIES": str(int(signal.SIGSTOP))}
    with worker("--start-timeout", "1", ready=False, **frozen) as process:
        process.wait_for_line("died before it was ready: killed by SIGKILL (signal 9) (was not ready in time)")
        process.signal(signal.SIGQUIT)
        assert process.wait() == 0, process.output


def test_processes_that_end_before_they_are_ready_are_replaced_ever_later_and_then_given_up():
    with worker(ready=False, HEADGATE_TEST_CHILD_DIES="11") as process:
        assert process.wait() == 1, process.output

    assert process.output.count("died before it was ready: killed by SIGSEGV (signal 11)") == 6
    assert "giving up" in process.output


def test_a_killed_tree_is_recovered_by_lease():
    enqueue_many([jobs.once.envelope(f"n{n}", 1.5) for n in range(2)])
    jobs.alone.enqueue("sleep", 1.0)
    with worker("--lease", "2") as process:
        wait_until(lambda: Run.objects.count() == 3, "entered")
        process.kill_tree()
    with worker("--lease", "2") as heir:
        wait_until(lambda: completed() == 3, "all completed")
        assert terminate(heir) == 0

    assert totals() == (0, 3, 0)


def test_without_a_supervisor_jobs_run_in_the_process_itself():
    enqueue_many([jobs.recorded.envelope(f"n{n}") for n in range(3)])

    with worker("--processes", "0", "--burst", "--max-jobs", "1", ready=False) as process:
        assert process.wait() == 0, process.output

    assert list(Run.objects.values_list("pid", flat=True)) == [process.pid] * 3
