"""Commands to workers, and the fleet in numbers."""

from __future__ import annotations

import os

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext

from headgate_django.control import fleet as module
from headgate_django.control.fleet import command, fleet, processes, waiting_for
from headgate_django.control.report import GONE, NOT_ALIVE
from headgate_django.core.commands import Command
from headgate_django.exceptions import PermissionRefused
from headgate_django.lifecycle.wakeup import Listener
from headgate_django.models import Worker
from tests.control.people import user_with
from tests.support.locks import Running

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(db):
    return user_with("command_worker")


def beat(worker_id, **columns):
    columns = {"hostname": "h", "pid": 7, "version": "1", "queues": {"*": 1}, "capacity": 4, **columns}
    return Worker.objects.beat(worker_id, **columns)


@pytest.mark.parametrize("order", Command)
def test_a_worker_finds_the_command_at_its_next_heartbeat(order, now, operator):
    beat("w1")

    report = command(["w1"], order, actor=operator)

    assert (str(report), beat("w1")) == (f"{order}: 1 done", order)


def test_a_supervisor_s_name_means_all_its_processes(now, operator):
    beat("a:1", supervisor="a")
    beat("a:2", supervisor="a")
    beat("b:1", supervisor="b")
    beat("alone")

    report = command(["a", "a:1"], Command.QUIET, actor=operator)

    assert report.done == 2
    assert set(Worker.objects.exclude(command="").values_list("id", flat=True)) == {"a:1", "a:2"}


def test_an_empty_name_is_nobody_s(now, operator):
    beat("alone")

    report = command([""], Command.TERMINATE, actor=operator)

    assert (report.done, report.skipped) == (0, {GONE: 1})
    assert Worker.objects.get().command == ""


def test_who_is_gone_or_silent_is_skipped_with_the_reason(now, operator):
    beat("silent")
    now.advance(minutes=2)
    beat("w1")

    report = command(["w1", "silent", "gone"], Command.QUIET, actor=operator)

    assert (report.done, report.skipped) == (1, {GONE: 1, NOT_ALIVE: 1})
    assert Worker.objects.get(pk="silent").command == ""


def test_each_command_is_recorded_for_each_worker(now, operator):
    beat("w1")
    beat("w2")

    command(["w1", "w2"], Command.RESTART, actor=operator)

    entries = LogEntry.objects.order_by("object_id").values_list("object_id", "change_message", "user")
    assert list(entries) == [
        ("w1", "Told to restart.", operator.pk),
        ("w2", "Told to restart.", operator.pk),
    ]


def test_it_needs_its_own_permission_before_anything_is_read(now):
    beat("w1")
    other = user_with("view_worker", "pause_queue")
    other.get_all_permissions()

    with CaptureQueriesContext(connection) as queries, pytest.raises(PermissionRefused, match="command_worker"):
        command(["w1"], Command.QUIET, actor=other)

    assert not queries.captured_queries
    assert Worker.objects.get().command == ""


def test_trusted_code_needs_no_permission_and_leaves_no_log_entry(now):
    beat("w1")

    assert command(["w1"], Command.QUIET, actor=None).done == 1
    assert not LogEntry.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(os.environ.get("HEADGATE_TEST_DB") != "postgres", reason="only PostgreSQL has NOTIFY")
def test_a_worker_that_listens_is_woken_by_its_command():
    beat("w1")
    beat("w2")
    listener = Listener("default", "w1")
    listener.subscribe()
    listener.heard()

    Running(lambda: command(["w2"], Command.QUIET, actor=None)).result()
    after_another = heard_by(listener)
    Running(lambda: command(["w1"], Command.QUIET, actor=None)).result()

    assert (after_another.look, heard_by(listener).look) == (False, True)


def heard_by(listener):
    """What has arrived by the next answer of the server, which sends messages before it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return listener.heard()


def test_a_word_that_is_no_command_is_refused(now, operator):
    with pytest.raises(ValueError, match="explode"):
        command(["w1"], "explode", actor=operator)


def test_one_call_tells_a_bounded_number(now, operator, monkeypatch):
    monkeypatch.setattr(module, "MAX_WORKERS", 2)
    for number in range(3):
        beat(f"w{number}", supervisor="s")

    report = command(["s"], Command.QUIET, actor=operator)

    assert (report.done, report.more) == (2, True)


def test_names_are_looked_up_once(now):
    beat("a:1", supervisor="a")

    assert processes(["a", "a:1", "a", "nobody"]) == (["a:1"], 1)


def test_who_has_not_acknowledged_is_waited_for(now, operator):
    beat("w1")
    beat("w2")
    command(["w1", "w2"], Command.QUIET, actor=operator)

    Worker.objects.acknowledge("w1", beat("w1"))

    assert waiting_for(["w1", "w2"], Command.QUIET) == ["w2"]


@pytest.mark.parametrize("order", Command)
def test_who_has_left_the_register_has_obeyed_a_command_to_end_and_no_other(order, now):
    ends = order in (Command.TERMINATE, Command.RESTART)

    assert waiting_for(["gone"], order) == ([] if ends else ["gone"])


def test_the_ratios_of_the_fleet_are_ratios_of_sums_over_the_living(now):
    beat("dead", capacity=100, in_flight=100, recent_polls=100)
    now.advance(minutes=2)
    beat("large", capacity=30, in_flight=30, recent_polls=100, recent_empty_polls=0)
    beat("small", capacity=10, in_flight=0, recent_polls=20, recent_empty_polls=12)

    found = fleet()

    assert (len(found.live), found.stale, found.capacity, found.in_flight) == (2, 1, 40, 30)
    assert (found.utilisation, found.empty_poll_ratio) == (0.75, 0.1)


def test_an_empty_fleet_has_no_ratios(now):
    found = fleet()

    assert (found.utilisation, found.empty_poll_ratio, found.served) == (None, None, {})


def test_the_living_are_counted_for_each_queue_that_they_name(now):
    beat("gone", queues={"old": 1})
    now.advance(minutes=2)
    beat("w1", queues={"mail": 1, "default": 1})
    beat("w2", queues={"mail": 3})
    beat("w3")

    assert fleet().served == {"*": 1, "default": 1, "mail": 2}


def test_the_fleet_is_read_with_the_latest_heartbeats_first_and_no_further_than_its_bound(now, monkeypatch):
    monkeypatch.setattr(module, "MAX_WORKERS", 2)
    for name in ("first", "second", "third"):
        beat(name)
        now.advance(seconds=1)

    found = fleet()

    assert ([worker.id for worker in found.workers], found.more) == (["third", "second"], True)


def test_what_runs_is_only_read_when_it_is_asked_for(now):
    beat("w1", current_jobs=[{"id": "j", "kind": "k", "started_at_ms": 1}])

    assert "current_jobs" in fleet().workers[0].get_deferred_fields()
    assert fleet(current_jobs=True).workers[0].current_jobs[0]["id"] == "j"
