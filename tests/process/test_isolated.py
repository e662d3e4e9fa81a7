"""A job in a process of its own: all works as in a thread, and whatever becomes of the process is its outcome."""

from __future__ import annotations

import os
import signal

import pytest

from headgate_django.core.states import Event, State
from headgate_django.models import Attempt, Job, RateBucket, RateBudget, RateClass
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import Process, terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]


def settled(*jobs_: Job) -> bool:
    return not Job.objects.filter(
        pk__in=[job.pk for job in jobs_], state__in=[State.AVAILABLE, State.RUNNING]
    ).exists()


def end(*enqueued: Job, **options: str) -> Process:
    """Serve until the jobs are neither available nor running."""
    with worker("--threads", "4", "--timeout-grace", "0.5") as process:
        wait_until(lambda: settled(*enqueued), "settled")
        children = process.children()
        assert terminate(process) == 0, process.output
        assert Job.objects.filter(state=State.RUNNING).count() == 0
    assert len(children) == 1, process.output
    return process


def test_success_failure_and_a_chosen_outcome_come_back_from_a_process_of_their_own():
    fine = jobs.alone.enqueue("nothing")
    wrong = jobs.alone.using(max_attempts=1).enqueue("raise")
    later = jobs.alone.enqueue("retry", 3600)
    away = jobs.alone.using(max_attempts=1).enqueue("exit", 3)

    end(fine, wrong, later, away)

    for job in (fine, wrong, later, away):
        job.refresh_from_db()
    assert [job.state for job in (fine, wrong, later, away)] == [
        State.COMPLETED,
        State.ARCHIVED,
        State.RETRYABLE,
        State.ARCHIVED,
    ]
    assert (wrong.error_class, wrong.error_summary) == ("ValueError", "told from afar")
    assert away.error_class == "SystemExit"
    assert "_raise" in Attempt.objects.get(job=wrong).traceback
    assert len(set(Run.objects.values_list("pid", flat=True))) == 4


def test_an_asynchronous_handler_runs_in_a_process_of_its_own():
    job = jobs.alone_async.enqueue(0.01)

    end(job)

    job.refresh_from_db()
    assert job.state == State.COMPLETED


def test_an_asynchronous_handler_alone_with_its_event_loop_is_judged_by_what_it_does_itself():
    harms = ("leave a thread", "exit in a task", "stop the loop")
    enqueued = {jobs.alone_async_does.enqueue(what).pk: what for what in harms}

    end(*Job.objects.all())

    states = {enqueued[job.pk]: job.state for job in Job.objects.all()}
    assert states == dict.fromkeys(harms, State.COMPLETED)


def test_a_handler_that_loses_its_standard_output_succeeds_all_the_same():
    closed, lost = jobs.alone.enqueue("close stdout"), jobs.alone.enqueue("lose stdout")

    end(closed, lost)

    assert set(Job.objects.values_list("state", "fence")) == {(State.COMPLETED, 1)}


def test_a_handler_without_standard_error_is_still_reached_after_it_was_asked_where_it_is():
    job = jobs.alone.using(timeout=2, max_attempts=1).enqueue("lose stderr", 300)
    with worker("--timeout-grace", "300", "--lease", "300") as process:
        wait_until(lambda: Run.objects.filter(name="lost").exists(), "entered")
        process.signal(signal.SIGUSR2)
        process.wait_for_line("_lose_stderr")
        wait_until(lambda: settled(job), "settled")
        assert terminate(process) == 0, process.output

    job.refresh_from_db()
    assert (job.state, job.error_class) == (State.ARCHIVED, "TimeoutError")


def test_a_process_that_dies_is_over_although_a_daemon_of_it_goes_on_printing():
    job = jobs.alone.enqueue("daemon", 3)

    end(job)

    first = Attempt.objects.filter(job=job).first()
    assert first.outcome == Event.LOSE_LEASE
    assert "exit code 3" in first.message
    assert "tick" in first.logs


def test_progress_weight_and_a_large_payload_pass():
    RateBudget.objects.create(
        rate_class=RateClass.objects.create(name="api"), limit=100, window_ms=3_600_000, burst=100
    )
    reporting = jobs.alone.using(rate_class="api").enqueue("report", 1.5)
    large = jobs.alone.enqueue("size", "x" * 900_000)

    end(reporting, large)

    reporting.refresh_from_db()
    assert (reporting.progress_done, reporting.progress_total, reporting.progress_note) == (7, 120, "rows")
    assert RateBucket.objects.get().level // 3_600_000 == 97  # its weight is 1; it has reported 3
    assert Run.objects.filter(name="size 900000").exists()


@pytest.mark.parametrize(
    ("what", "value", "words"),
    [
        ("_exit", 0, "exit code 0"),
        ("_exit", 9, "exit code 9"),
        ("segfault", None, "SIGSEGV"),
        ("kill", None, "SIGKILL"),
    ],
)
def test_a_process_that_dies_is_one_crash_of_its_job_and_of_nobody_else(what, value, words):
    neighbours = [jobs.sleeps.enqueue(1.0) for _ in range(2)]
    doomed = jobs.alone.enqueue(what, value)

    with worker("--threads", "4") as process:
        wait_until(lambda: Job.objects.filter(pk=doomed.pk, state=State.QUARANTINED).exists(), "quarantined")
        wait_until(lambda: settled(*neighbours), "neighbours settled")
        assert len(process.children()) == 1
        assert terminate(process) == 0

    doomed.refresh_from_db()
    assert (doomed.crash_attempt, doomed.attempt) == (3, 0)
    assert set(Job.objects.exclude(pk=doomed.pk).values_list("crash_attempt", "state")) == {(0, State.COMPLETED)}
    first = Attempt.objects.filter(job=doomed).first()
    assert (first.outcome, first.error_class) == (Event.LOSE_LEASE, "ProcessDied")
    assert words in first.message


def test_the_end_of_what_it_printed_is_kept_with_the_attempt():
    job = jobs.alone.enqueue("talk")

    end(job)

    logs = Attempt.objects.filter(job=job).first().logs
    assert logs.endswith("written at the end\n")
    assert "bytes left out" in logs
    assert len(logs) < 9_000


def test_a_segmentation_fault_says_where_it_happened():
    job = jobs.alone.enqueue("segfault")

    end(job)

    logs = Attempt.objects.filter(job=job).first().logs
    assert "Fatal Python error: Segmentation fault" in logs
    assert "dangerous.py" in logs


def test_a_handler_that_ignores_its_timeout_is_killed_and_the_run_counts_as_an_attempt():
    job = jobs.stubborn_alone.enqueue()

    end(job)

    job.refresh_from_db()
    assert (job.state, job.attempt, job.crash_attempt) == (State.RETRYABLE, 1, 0)
    assert job.error_class == "TimeoutError"
    assert "killed" in Attempt.objects.get().message


def test_a_job_above_its_memory_limit_is_killed_and_fails():
    job = jobs.hog.enqueue()

    end(job)

    job.refresh_from_db()
    assert (job.state, job.attempt, job.crash_attempt) == (State.RETRYABLE, 1, 0)
    assert job.error_class == "MemoryError"


def test_a_fork_bomb_is_ended_with_everything_it_started_and_fails():
    job = jobs.alone.enqueue("bomb")

    end(job)

    job.refresh_from_db()
    assert (job.state, job.attempt, job.error_class) == (State.RETRYABLE, 1, "TooManyProcesses")
    assert not [pid for pid in Run.objects.values_list("pid", flat=True) if os.path.exists(f"/proc/{pid}")]


def test_processes_that_have_ended_count_until_somebody_has_waited_for_them():
    job = jobs.alone.enqueue("zombies", 100)

    end(job)

    job.refresh_from_db()
    assert (job.state, job.error_class) == (State.RETRYABLE, "TooManyProcesses")


def test_a_handler_that_forks_succeeds_once_and_leaves_no_process_behind():
    forked, left = jobs.alone.enqueue("fork"), jobs.alone.enqueue("leave")

    end(forked, left)

    assert set(Job.objects.values_list("state", "fence")) == {(State.COMPLETED, 1)}


def test_cancelling_an_isolated_job_ends_it():
    from headgate_django.control.cancel import cancel

    job = jobs.alone.enqueue("sleep", 300)
    with worker("--lease", "1.5", "--timeout-grace", "0.2") as process:
        wait_until(lambda: Run.objects.count() == 1, "entered")
        cancel([job.pk], actor=None)
        wait_until(lambda: process.cells() == [], "its process is gone")
        assert terminate(process) == 0

    job.refresh_from_db()
    assert (job.state, job.crash_attempt) == (State.CANCELLED, 0)


def test_stopping_gives_an_isolated_job_back():
    job = jobs.alone.enqueue("sleep", 300)
    with worker("--shutdown-timeout", "0.2") as process:
        wait_until(lambda: Run.objects.count() == 1, "entered")
        assert terminate(process) == 0, process.output

    job.refresh_from_db()
    assert (job.state, job.attempt, job.crash_attempt, job.interruptions) == (State.AVAILABLE, 0, 0, 1)
