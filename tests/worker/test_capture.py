"""What a run logs is kept: bounded, storable, its own, and never at the job's cost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import logging.config
import threading

import pytest
from asgiref.sync import sync_to_async

from headgate_django.core.states import Event
from headgate_django.models import Attempt
from headgate_django.worker.capture import capture, install
from tests.worker.performing import claim_of, perform, perform_async, settle

LIMIT = 1_000
logger = logging.getLogger("shop.test")


@pytest.fixture(autouse=True)
def every_level():
    logger.setLevel(logging.DEBUG)
    yield
    logger.setLevel(logging.NOTSET)


@contextlib.contextmanager
def unobserved():
    """Without pytest's own handlers: it would carry ten megabytes, of what no file can hold, to its report."""
    root = logging.getLogger()
    watching = [handler for handler in root.handlers if type(handler).__module__.startswith("_pytest")]
    for handler in watching:
        root.removeHandler(handler)
    yield
    for handler in watching:
        root.addHandler(handler)


def test_records_are_kept_with_level_logger_and_traceback():
    with capture(LIMIT * 10) as log:
        logger.info("sent %d of %d", 1, 2)
        try:
            raise KeyError("lost")
        except KeyError:
            logger.exception("failed")

    lines = log.text.splitlines()
    assert lines[0].endswith("s INFO shop.test: sent 1 of 2")
    assert lines[1].endswith("s ERROR shop.test: failed")
    assert lines[-1] == "KeyError: 'lost'"


def test_only_what_is_logged_while_it_lasts_is_kept():
    logger.info("before")
    with capture(LIMIT) as log:
        logger.info("inside")
    logger.info("after")

    assert log.text.count("\n") == 1
    assert "inside" in log.text


def test_the_first_and_the_last_part_are_kept_and_the_rest_is_counted():
    with capture(LIMIT) as log:
        for number in range(10_000):
            logger.info("line %d", number)

    text = log.text
    assert "line 0\n" in text
    assert text.endswith("line 9999\n")
    assert len(text.encode()) < LIMIT + 100
    [note] = [line for line in text.splitlines() if "bytes left out" in line]
    left_out = int(note.split()[1])
    assert left_out + LIMIT == log._size  # nothing is lost without being counted


@pytest.mark.parametrize("piece", ["x", "🎈", "é\0", "\ud800"])
def test_one_record_of_ten_megabytes_is_bounded_and_storable(piece):
    with unobserved(), capture(LIMIT) as log:
        logger.info(piece * (10_000_000 // len(piece)))

    text = log.text
    assert len(text.encode()) < LIMIT + 100
    assert "\0" not in text
    assert len(log._head) + len(log._tail) <= 3 * LIMIT + 4 * 65_536


def test_an_exact_fit_leaves_nothing_out():
    for size in range(LIMIT - 60, LIMIT + 1):
        with capture(LIMIT) as log:
            log.write("x" * (size - 1))

        assert log.text == "x" * (size - 1) + "\n"


def test_runs_beside_each_other_keep_their_own():
    texts = {}
    together = threading.Barrier(4)

    def run(name: str) -> None:
        with capture(LIMIT * 100) as log:
            together.wait()
            for number in range(200):
                logger.info("%s %d", name, number)
        texts[name] = log.text

    threads = [threading.Thread(target=run, args=[name]) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for name in "abcd":
        assert [line.split(": ")[1] for line in texts[name].splitlines()] == [f"{name} {n}" for n in range(200)]


def test_it_follows_into_tasks_and_sync_to_async_and_not_into_a_task_beside():
    async def inner() -> None:
        logger.info("task")
        await sync_to_async(logger.info)("thread")

    async def one() -> str:
        with capture(LIMIT) as log:
            await asyncio.gather(inner(), inner())
        return log.text

    async def beside() -> None:
        for _ in range(5):
            logger.info("beside")
            await asyncio.sleep(0)

    async def main() -> str:
        text, _ = await asyncio.gather(one(), beside())
        return text

    text = asyncio.run(main())

    assert (text.count("task"), text.count("thread"), text.count("beside")) == (2, 2, 0)


class Unprintable:
    def __str__(self) -> str:
        raise ValueError("no")


@pytest.mark.parametrize(("message", "arguments"), [("%d", ("x",)), ("%s %s", ("x",)), ("%s", (Unprintable(),))])
def test_a_broken_record_is_noted_and_harms_nothing(message, arguments, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)  # the other handlers of this process would print it
    with capture(LIMIT) as log:
        logger.info(message, *arguments)
        logger.info("next")

    assert "a record that cannot be formatted" in log.text
    assert "next" in log.text


def test_our_own_records_are_not_the_run_s():
    with capture(LIMIT) as log:
        logging.getLogger("headgate_django").warning("ours")
        logging.getLogger("headgate_django.worker").warning("ours")
        logging.getLogger("headgate_django_shop").warning("theirs")

    assert ("ours" in log.text, "theirs" in log.text) == (False, True)


def test_zero_keeps_nothing():
    with capture(0) as log:
        logger.info("x")

    assert log.text == ""


def test_it_is_installed_once_and_again_after_a_new_configuration():
    root = logging.getLogger()
    before = list(root.handlers)
    install()
    install()
    ours = [handler for handler in root.handlers if type(handler).__module__.endswith("worker.capture")]
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False, "root": {"handlers": []}})
    try:
        with capture(LIMIT) as log:
            logger.info("still")
    finally:
        root.handlers[:] = before

    assert len(ours) == 1
    assert "still" in log.text


def test_a_warning_without_any_handler_still_goes_to_stderr(capsys):
    root = logging.getLogger()
    before = list(root.handlers)
    try:
        root.handlers.clear()
        install()
        lonely = logging.getLogger("nobody.handles.this")
        lonely.warning("look")
        lonely.info("no need")
    finally:
        root.handlers[:] = before

    assert capsys.readouterr().err == "look\n"


def test_the_form_of_other_handlers_is_not_touched():
    records = []

    class Keeps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record.exc_text)

    handler = Keeps()
    with capture(LIMIT):
        logger.addHandler(handler)
        try:
            raise KeyError
        except KeyError:
            logger.exception("x")
        finally:
            logger.removeHandler(handler)

    assert records == [None]


@pytest.mark.django_db(transaction=True)
def test_the_logs_of_a_failure_are_stored_with_its_attempt_and_no_other_s(now):
    def talks(name: str) -> None:
        logger.info("I am %s\0", name)
        raise ValueError

    first, second = claim_of(talks, {"name": "first"}), claim_of(talks, {"name": "second"})

    for claim, outcome in zip((first, second), perform(first, second), strict=True):
        settle(claim, outcome)

    assert "INFO shop.test: I am first\\x00" in Attempt.objects.get(job_id=first.id).logs
    assert "first" not in Attempt.objects.get(job_id=second.id).logs


@pytest.mark.django_db(transaction=True)
def test_the_logs_of_an_asynchronous_handler_are_stored(now):
    async def talks() -> None:
        logger.info("on the loop")
        await sync_to_async(logger.info)("on a thread")
        raise ValueError

    claim = claim_of(talks)

    settle(claim, perform_async(claim))

    logs = Attempt.objects.get(job_id=claim.id).logs
    assert "on the loop" in logs
    assert "on a thread" in logs


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("limit", "expected"), [(0, 0), ("1KB", 1_024), (100, 100)])
def test_the_setting_bounds_them(limit, expected, settings, now):
    settings.HEADGATE = {"LOG_CAPTURE": limit}

    def talks() -> None:
        logger.info("x" * 100_000)

    [outcome] = perform(claim_of(talks))

    assert outcome.event is Event.SUCCEED
    assert expected <= len(outcome.logs.encode()) <= expected + (60 if expected else 0)


def test_an_outcome_does_not_show_its_logs():
    from headgate_django.core.outcomes import Outcome, settle
    from tests.worker.test_runner import claim

    outcome = Outcome(event=Event.RETRY, logs="hunter2")

    assert "hunter2" not in repr(outcome)
    assert "hunter2" not in repr(settle(claim(), outcome, jitter=0.5))
