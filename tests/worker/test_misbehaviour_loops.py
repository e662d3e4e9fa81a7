"""Event loops inside handlers, handlers inside event loops, and threads that are left behind."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction

from headgate_django.core.states import Event
from headgate_django.models import Job
from tests.sample.jobs import ok
from tests.sample.models import Run
from tests.worker.performing import claim_of, failure, fine, perform, perform_async

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def shared_thread_closed():
    """The thread that asgiref keeps for loops without a parent keeps a connection, one for the whole process."""
    yield
    asyncio.run(sync_to_async(connections.close_all)())


async def touch(name: str) -> None:
    await Run.objects.acreate(name=name, job_id="j")
    await ok.aenqueue(name)


def runs_a_loop() -> None:
    asyncio.run(touch("asyncio.run"))


def goes_async() -> None:
    async_to_sync(touch)("async_to_sync")


def starts_a_thread() -> None:
    def work() -> None:
        try:
            runs_a_loop()
            goes_async()
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def leaves_a_loop_behind() -> None:
    asyncio.set_event_loop(asyncio.new_event_loop())
    asyncio.get_event_loop().run_until_complete(touch("own loop"))
    asyncio.get_event_loop().close()


@pytest.mark.parametrize(
    ("handler", "count"), [(runs_a_loop, 1), (goes_async, 1), (starts_a_thread, 2), (leaves_a_loop_behind, 1)]
)
def test_a_synchronous_handler_may_start_event_loops_and_enqueue_from_them(handler, count, now):
    claim, following = claim_of(handler), claim_of(fine)

    outcomes = perform(claim, following)

    assert [outcome.event for outcome in outcomes] == [Event.SUCCEED, Event.SUCCEED]
    assert (Run.objects.count(), Job.objects.filter(kind="sample:ok").count()) == (count, count)


def test_async_to_sync_inside_an_atomic_handler_is_part_of_its_transaction(now):
    def works() -> None:
        async_to_sync(touch)("inside")
        raise ValueError

    perform(claim_of(works, atomic=True))

    assert (Run.objects.count(), Job.objects.filter(kind="sample:ok").count()) == (0, 0)


def test_an_asynchronous_handler_may_use_the_orm_and_transactions_through_sync_to_async(now):
    @transaction.atomic
    def both() -> None:
        Run.objects.create(name="a", job_id="j")
        ok.enqueue("a")

    async def works() -> None:
        await sync_to_async(both)()
        await touch("b")

    assert perform_async(claim_of(works)).event is Event.SUCCEED
    assert Run.objects.count() == 2


async def cancels_itself() -> None:
    asyncio.current_task().cancel()  # type: ignore[union-attr]
    await asyncio.sleep(60)


async def awaits_a_cancelled_task() -> None:
    task = asyncio.ensure_future(asyncio.sleep(60))
    task.cancel()
    await task


async def raises_it() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("handler", [cancels_itself, awaits_a_cancelled_task, raises_it])
def test_a_self_made_cancellation_is_a_failure_and_no_shutdown(handler, now):
    outcome = perform_async(claim_of(handler))

    assert (outcome.event, failure(outcome)[0]) == (Event.RETRY, "CancelledError")


def test_a_function_that_hides_a_coroutine_is_a_failure_instead_of_a_silent_success(now):
    async def asynchronous() -> None:
        await touch("never")

    @functools.wraps(fine)
    def hides() -> Any:
        return asynchronous()

    hides.__name__ = "hides"
    del hides.__wrapped__

    outcome = perform(claim_of(hides))[0]

    assert (failure(outcome)[0], Run.objects.count()) == ("TypeError", 0)
    assert "declare it async def" in failure(outcome)[1]


def test_a_thread_that_a_handler_leaves_behind_does_not_disturb_the_next_job(now):
    end = threading.Event()
    threads = []

    def leaves() -> None:
        thread = threading.Thread(target=end.wait, args=[60], daemon=True)
        thread.start()
        threads.append(thread)

    claim, following = claim_of(leaves), claim_of(fine)

    outcomes = perform(claim, following)
    alive = threads[0].is_alive()
    end.set()
    threads[0].join()

    assert ([outcome.event for outcome in outcomes], alive) == ([Event.SUCCEED, Event.SUCCEED], True)
