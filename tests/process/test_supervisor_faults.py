"""What must never stop the supervisor: what its children leave behind, say, or do not read."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from headgate_django import enqueue_many
from headgate_django.core.states import State
from headgate_django.models import Attempt, Job, Worker
from tests.sample import hazards, jobs
from tests.sample.models import Run
from tests.support.processes import ROOT, environment, freeze, terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]


def completed() -> int:
    return Job.objects.filter(state=State.COMPLETED).count()


def test_a_copy_of_a_dead_child_that_lives_on_does_not_hold_the_supervisor_up():
    job = hazards.shares.enqueue("copy", 300)
    with worker("--lease", "300") as process:
        wait_until(lambda: Run.objects.filter(name="copy", pid__gt=0).exclude(job_id="").count() == 2, "forked")
        [child] = process.children()
        copy = Run.objects.filter(name="copy").exclude(pid=child).get().pid
        try:
            os.kill(child, signal.SIGKILL)
            wait_until(lambda: Job.objects.filter(pk=job.pk, state=State.COMPLETED).exists(), "ran again")
            assert terminate_with(copy, process) == 0, process.output
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(copy, signal.SIGKILL)

    job.refresh_from_db()
    assert (job.crash_attempt, job.interruptions) == (1, 0)


def terminate_with(copy: int, process) -> int:
    os.kill(copy, signal.SIGKILL)  # it holds the output open, whose end the tests wait for
    return terminate(process)


@pytest.mark.parametrize("code", [0, 75], ids=["as if done", "as if to be replaced"])
def test_a_handler_that_exits_with_a_code_of_ours_is_a_crash_and_its_process_is_replaced(code):
    job = hazards.shares.enqueue("_exit", code)
    with worker("--lease", "300") as process:
        wait_until(lambda: Job.objects.filter(pk=job.pk, state=State.COMPLETED).exists(), "ran again")
        assert terminate(process) == 0, process.output

    job.refresh_from_db()
    assert job.crash_attempt == 1
    assert f"exit code {code}" in Attempt.objects.get().message


def test_a_frozen_child_that_reads_nothing_does_not_hold_the_supervisor_up():
    options = ("--processes", "2", "--threads", "1", "--shutdown-timeout", "0", "--lease", "300")
    with worker(*options) as process:
        frozen, _ = process.children()
        freeze(frozen)
        for _ in range(1_500):  # each is one more order that it does not read
            process.signal(signal.SIGUSR2)
            time.sleep(0.0005)
        job = jobs.alone.enqueue("nothing")
        wait_until(lambda: Job.objects.filter(pk=job.pk, state=State.COMPLETED), "the other child goes on")
        os.kill(frozen, signal.SIGCONT)
        assert terminate(process) == 0, process.output


def test_a_handler_that_writes_into_the_channel_costs_its_own_process_only():
    job = hazards.shares.enqueue("scribbles")
    with worker("--lease", "300") as process:
        wait_until(lambda: Job.objects.filter(pk=job.pk, state=State.COMPLETED).exists(), "ran again")
        assert terminate(process) == 0, process.output

    assert "one of its jobs has written into our channel" in process.output
    assert "Traceback" not in process.output


def test_a_process_that_replaces_a_quiet_one_is_quiet():
    with worker("--lease", "1") as process:
        process.signal(signal.SIGUSR1)
        wait_until(lambda: Worker.objects.filter(status="quiet").exists(), "quiet")
        [child] = process.children()
        os.kill(child, signal.SIGKILL)
        job = jobs.ok.enqueue()
        wait_until(
            lambda: Worker.objects.filter(status="quiet").exclude(pid=child).exists(), "its successor is quiet"
        )
        assert terminate(process) == 0, process.output

    job.refresh_from_db()
    assert job.state == State.AVAILABLE


def test_a_worker_whose_output_nobody_reads_any_more_goes_on():
    command = [sys.executable, "-m", "django", "headgate_worker", "--lease", "300"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    )
    try:
        assert b"starting" in process.stdout.readline()
        process.stdout.close()
        enqueued = [jobs.alone.enqueue("nothing"), jobs.ok.enqueue(), hazards.shares.enqueue("_exit", 9)]
        wait_until(lambda: completed() == len(enqueued), "all completed")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def half_pipes(pid: int) -> int:
    """How many pipes a process has one end of, and not the other."""
    held: Counter[str] = Counter()
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            held[os.readlink(f"/proc/{pid}/fd/{number}")] += 1
    return sum(name.startswith("pipe:") and count == 1 for name, count in held.items())


def test_every_isolated_job_that_a_dead_child_had_still_asked_a_process_for_is_given_back():
    with worker("--threads", "10", "--lease", "300", "--no-duties") as process:
        [child] = process.children()
        before = half_pipes(child)
        process.signal(signal.SIGSTOP)
        enqueue_many([jobs.alone.envelope("nothing", n) for n in range(10)])
        wait_until(lambda: Job.objects.filter(state=State.RUNNING).count() == 10, "admitted")
        wait_until(lambda: half_pipes(child) == before + 10, "a process is asked for each")
        os.kill(child, signal.SIGKILL)
        process.signal(signal.SIGCONT)
        wait_until(lambda: completed() == 10, "all completed")
        assert terminate(process) == 0, process.output

    assert Job.objects.filter(interruptions=1, crash_attempt=0).count() == 10


def test_a_process_that_said_goodbye_and_cannot_end_is_killed_and_replaced_at_no_cost():
    stuck = jobs.audits.enqueue()
    with worker("--timeout-grace", "0.1", "--lease", "300") as process:
        [child] = process.children()
        process.wait_for_line("is stuck")
        job = jobs.ok.enqueue()
        wait_until(lambda: Job.objects.filter(pk=job.pk, state=State.COMPLETED), "its successor goes on")
        assert process.children() != [child]
        assert terminate(process) == 0, process.output

    stuck.refresh_from_db()
    assert (stuck.attempt, stuck.crash_attempt, stuck.interruptions) == (1, 0, 0)
    assert "did not end after its goodbye" in process.output


def test_a_death_is_reported_as_soon_as_there_is_room_for_a_process_again(tmp_path):
    no_room = tmp_path / "no room"
    enqueue_many([jobs.alone.envelope("sleep", 300 + n) for n in range(2)])
    with worker("--lease", "300", "--shutdown-timeout", "0", HEADGATE_TEST_FORK_FAILS=str(no_room)) as process:
        wait_until(lambda: Run.objects.count() == 2, "entered")
        [child] = process.children()
        no_room.touch()
        os.kill(child, signal.SIGKILL)
        process.wait_for_line("cannot report a death yet")
        process.wait_for_line("cannot start a process")
        no_room.unlink()
        wait_until(lambda: Job.objects.filter(interruptions=1).count() == 2, "given back")
        assert terminate(process) == 0, process.output

    assert Job.objects.filter(crash_attempt=0).count() == 2
    assert process.output.count("cannot report a death") == 1
