"""What a handler says of its progress, and how it is asked to stop."""

from __future__ import annotations

import threading

import pytest

from headgate_django import Interrupted
from headgate_django.core.outcomes import Progress
from headgate_django.exceptions import InvalidJob
from headgate_django.jobs.context import CancelReason, Context
from tests.worker.test_runner import claim

BIGGEST = 2**63 - 1


@pytest.fixture
def context():
    return Context(claim())


def test_the_newest_report_is_taken_once(context):
    assert context.take_progress() is None

    context.progress(1)
    context.progress(7, 120, "rows")

    assert context.take_progress() == Progress(7, 120, "rows")
    assert context.take_progress() is None


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ((0,), Progress(0, 0, "")),
        ((BIGGEST, BIGGEST), Progress(BIGGEST, BIGGEST, "")),
        ((5, 3), Progress(5, 3, "")),
        ((1, None, "a\0b\ud800"), Progress(1, 0, "a\\x00b\\ud800")),
        ((1, 2, "é" * 300), Progress(1, 2, "é" * 255)),
        ((1, 2, "\0" * 300), Progress(1, 2, ("\\x00" * 255)[:255])),
    ],
)
def test_what_fits_the_columns_is_kept(given, kept, context):
    context.progress(*given)

    assert context.take_progress() == kept


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ((-1,), "done"),
        ((BIGGEST + 1,), "done"),
        ((10**5_000,), "done"),
        ((1.5,), "done"),
        ((True,), "done"),
        (("7",), "done"),
        ((1, -1), "total"),
        ((1, 0.5), "total"),
        ((1, 2, None), "note"),
        ((1, 2, b"rows"), "note"),
    ],
)
def test_anything_else_is_refused_and_keeps_the_last_one(given, field, context):
    context.progress(1)

    with pytest.raises(InvalidJob, match=f"^{field}: must be"):
        context.progress(*given)

    assert context.take_progress() == Progress(1)


def test_a_report_is_passed_on_where_somebody_listens():
    heard = []
    context = Context(claim(), report=lambda what, value: heard.append((what, value)))

    context.progress(7, None, "rows")
    context.report_weight(3)

    assert heard == [("progress", (7, 0, "rows")), ("weight", 3)]
    assert (context.take_progress(), context.actual_weight) == (Progress(7, 0, "rows"), 3)


def test_what_was_passed_on_can_be_applied_elsewhere():
    there = Context(claim())
    here = Context(claim(), report=lambda what, value: there.progress(*value))

    here.progress(7, 120, "a\0")

    assert there.take_progress() == here.take_progress()


def test_reports_of_many_threads_end_with_one_of_the_last(context):
    def work(start: int) -> None:
        for number in range(start, start + 1_000):
            context.progress(number, 10_000)

    threads = [threading.Thread(target=work, args=[start]) for start in (0, 1_000, 2_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    taken = context.take_progress()
    assert taken is not None
    assert taken.done in {999, 1_999, 2_999}


def test_a_handler_may_stop_where_it_likes(context):
    context.raise_if_cancelled()
    context.cancel(CancelReason.DEADLINE)

    with pytest.raises(Interrupted, match="deadline"):
        context.raise_if_cancelled()


def test_the_first_reason_stays_under_many_threads(context):
    start = threading.Barrier(8)
    reasons = list(CancelReason) * 2
    seen = []

    def cancel(reason: CancelReason) -> None:
        start.wait()
        context.cancel(reason)
        seen.append(context.cancel_reason)

    threads = [threading.Thread(target=cancel, args=[reason]) for reason in reasons]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(seen)) == 1


def test_an_interruption_is_not_swallowed_by_except_exception():
    assert issubclass(Interrupted, BaseException)
    assert not issubclass(Interrupted, Exception)
