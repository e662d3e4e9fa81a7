"""Interruptions that come at a bad moment: before the handler has begun, or outside of it."""

from __future__ import annotations

import threading

import pytest

from headgate_django import Context, job
from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import Event, State
from headgate_django.gate.admit import Gate
from headgate_django.jobs.context import CancelReason
from headgate_django.models import Attempt, Job
from headgate_django.worker.executors.loop import LoopExecutor
from headgate_django.worker.interrupt import Interruptible
from headgate_django.worker.run import Place, Results, Run
from tests.sample import hazards
from tests.sample.models import Run as Entry
from tests.support.processes import terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

BEGUN: list[str] = []
GO_ON = threading.Event()


@job("test:blocks_loop")
async def blocks_loop(context: Context) -> None:
    BEGUN.append("blocks")
    GO_ON.wait(60)


@job("test:begins_late")
async def begins_late(context: Context) -> None:
    BEGUN.append("late")


def never() -> Outcome:
    raise AssertionError("called")


def test_a_call_that_is_interrupted_before_it_begins_never_begins():
    interruptible = Interruptible()

    assert interruptible.interrupt()

    assert interruptible.call(never) is None
    assert not interruptible.interrupt()


def test_a_call_that_has_ended_cannot_be_interrupted():
    interruptible = Interruptible()
    outcome = Outcome(event=Event.SUCCEED)

    assert interruptible.call(lambda: outcome) is outcome

    assert not interruptible.interrupt()


@pytest.mark.parametrize("reason", [CancelReason.SHUTDOWN, CancelReason.TIMEOUT])
def test_an_asynchronous_job_that_is_cancelled_while_the_loop_is_busy_never_begins_and_says_why(reason):
    BEGUN.clear()
    GO_ON.clear()
    blocks_loop.enqueue()
    begins_late.using(priority=-1, timeout=60).enqueue()
    first, second = (Run(claim, Place.LOOP) for claim in Gate("w1", queues={"*": 1}).admit(2))
    results = Results(lambda: None)
    executor = LoopExecutor(results)

    executor.submit(first)
    wait_until(lambda: BEGUN, "the loop is busy")
    executor.submit(second)
    second.context.cancel(reason)
    executor.cancel(second)
    GO_ON.set()
    wait_until(lambda: len(results) == 2, "both have ended")

    assert executor.close(10)
    outcomes = dict(results.take())
    assert BEGUN == ["blocks"]
    assert outcomes[second].event == {"shutdown": Event.INTERRUPT, "timeout": Event.RETRY}[reason]
    assert (
        outcomes[second].failure.error_class
        == {"shutdown": "headgate_django.exceptions.Interrupted", "timeout": "TimeoutError"}[reason]
    )


def test_a_job_that_times_out_while_the_loop_is_busy_is_not_taken_for_stuck():
    hazards.hogs_loop.enqueue(2.5)
    with worker("--lease", "300") as process:
        wait_until(lambda: Entry.objects.filter(name="hogs").exists(), "the loop is busy")
        late = hazards.waits_async.enqueue(300)
        wait_until(lambda: Job.objects.filter(pk=late.pk, state=State.RETRYABLE).exists(), "timed out")
        assert terminate(process) == 0, process.output

    late.refresh_from_db()
    assert (late.attempt, late.error_class) == (1, "TimeoutError")
    assert "stuck" not in Attempt.objects.get().message


def test_a_timeout_outside_of_the_handler_is_a_timeout():
    late = hazards.upcasts.enqueue()
    Job.objects.filter(pk=late.pk).update(schema_version=1)
    with worker("--lease", "300") as process:
        wait_until(lambda: Job.objects.filter(pk=late.pk, state=State.RETRYABLE).exists(), "timed out")
        assert terminate(process) == 0, process.output

    late.refresh_from_db()
    assert (late.attempt, late.error_class, late.error_summary) == (
        1,
        "TimeoutError",
        "attempt timed out after 1000 ms",
    )


def test_a_stop_outside_of_the_handler_gives_the_job_back():
    late = hazards.upcasts.using(timeout=300).enqueue()
    Job.objects.filter(pk=late.pk).update(schema_version=1)
    with worker("--shutdown-timeout", "0", "--lease", "300") as process:
        wait_until(lambda: Job.objects.filter(pk=late.pk, state=State.RUNNING).exists(), "runs")
        assert terminate(process) == 0, process.output

    late.refresh_from_db()
    assert (late.state, late.attempt, late.interruptions) == (State.AVAILABLE, 0, 1)
