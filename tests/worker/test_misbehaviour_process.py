"""Handlers that change what the process or the thread shares."""

from __future__ import annotations

import contextvars
import decimal
import locale
import os
import threading

import pytest
from django.utils import timezone, translation

from headgate_django.core.states import Event
from tests.worker.performing import claim_of, perform

pytestmark = pytest.mark.django_db(transaction=True)

LOCALE = "C.UTF-8"
REQUEST_ID: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="none")


@pytest.fixture(autouse=True)
def restored(tmp_path):
    folder, environment, spoken = os.getcwd(), dict(os.environ), locale.setlocale(locale.LC_ALL)
    yield
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    locale.setlocale(locale.LC_ALL, spoken)


def look() -> tuple[object, ...]:
    return (
        os.getcwd(),
        dict(os.environ),
        locale.setlocale(locale.LC_ALL),
        decimal.getcontext().prec,
        translation.get_language(),
        timezone.get_current_timezone_name(),
        REQUEST_ID.get(),
    )


def test_what_a_handler_changes_is_put_back_before_the_next_one(now, tmp_path, caplog):
    seen = []

    def looks() -> None:
        seen.append(look())

    def changes() -> None:
        os.chdir(tmp_path)
        os.environ["SHOP_TOKEN"] = "hunter2"
        del os.environ["PATH"]
        os.environ["LANG"] = "xx"
        locale.setlocale(locale.LC_ALL, LOCALE if seen[0][2] != LOCALE else "C")
        decimal.getcontext().prec = 3
        translation.activate("de")
        timezone.activate("Asia/Tokyo")
        REQUEST_ID.set("mine")
        seen.append(look())
        raise ValueError

    before = claim_of(looks)
    perform(before, claim_of(changes), before)

    assert all(one != other for one, other in zip(seen[0], seen[1], strict=True))
    assert seen[2] == seen[0]
    [record] = caplog.records
    assert "the working directory" in record.getMessage()
    assert "environment variables LANG, PATH, SHOP_TOKEN" in record.getMessage()
    assert "the locale" in record.getMessage()
    assert "hunter2" not in record.getMessage()


def test_a_working_directory_that_was_deleted_is_left(now, tmp_path):
    home = os.getcwd()
    folder = tmp_path / "short-lived"

    def deletes() -> None:
        folder.mkdir()
        os.chdir(folder)
        folder.rmdir()

    [outcome] = perform(claim_of(deletes))

    assert (outcome.event, os.getcwd()) == (Event.SUCCEED, home)


def test_nothing_is_put_back_under_a_handler_that_still_runs(now, tmp_path):
    home = os.getcwd()
    inside, leave = threading.Event(), threading.Event()
    seen = []

    def changes_for_a_while() -> None:
        os.chdir(tmp_path)
        inside.set()
        assert leave.wait(60)
        seen.append(os.getcwd())

    def passes() -> None:
        pass

    long, short = claim_of(changes_for_a_while), claim_of(passes)
    running = threading.Thread(target=perform, args=[long])
    running.start()
    assert inside.wait(60)
    perform(short)
    between = os.getcwd()
    leave.set()
    running.join()

    assert (between, seen, os.getcwd()) == (str(tmp_path), [str(tmp_path)], home)


def test_the_time_zone_variable_is_put_back_for_the_c_library_too(now):
    import time

    before = time.tzname

    def changes() -> None:
        os.environ["TZ"] = "Asia/Tokyo"
        time.tzset()

    perform(claim_of(changes))

    assert time.tzname == before
