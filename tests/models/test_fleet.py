"""The register of workers: heartbeats, commands that wait in it, and their acknowledgement."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from headgate_django.core.commands import Command, Status
from headgate_django.models import Worker

pytestmark = pytest.mark.django_db

ROW = {"hostname": "h", "pid": 7, "version": "1", "queues": {"mail": 2}, "capacity": 4}


def beat(worker_id="w1", **columns):
    return Worker.objects.beat(worker_id, **ROW, **columns)


def test_the_first_heartbeat_makes_the_row(now):
    command = beat(in_flight=1, current_jobs=[{"id": "j", "kind": "k", "started_at_ms": 5}])

    worker = Worker.objects.get()
    assert command == ""
    assert (worker.id, worker.pid, worker.queues, worker.status) == ("w1", 7, {"mail": 2}, Status.RUNNING)
    assert worker.current_jobs == [{"id": "j", "kind": "k", "started_at_ms": 5}]
    assert (worker.started_at_ms, worker.heartbeat_at_ms) == (now.at_ms, now.at_ms)


def test_a_later_heartbeat_keeps_the_start_and_what_it_does_not_mention(now):
    beat(code_version="abc", in_flight=3)
    started = now.at_ms
    now.advance(seconds=10)

    beat(in_flight=2)

    worker = Worker.objects.get()
    assert (worker.code_version, worker.in_flight, worker.capacity) == ("abc", 2, 4)
    assert (worker.started_at_ms, worker.heartbeat_at_ms) == (started, now.at_ms)


def test_a_heartbeat_returns_the_command_that_waits_and_leaves_it_there(now):
    beat()
    Worker.objects.tell(["w1"], Command.QUIET)

    answers = [beat(), beat()]

    worker = Worker.objects.get()
    assert answers == ["quiet", "quiet"]
    assert (worker.command, worker.commanded_at_ms) == ("quiet", now.at_ms)


def test_a_heartbeat_is_one_statement(now):
    with CaptureQueriesContext(connection) as first:
        beat()
    with CaptureQueriesContext(connection) as second:
        beat()

    assert (len(first), len(second)) == (1, 1)


def test_an_acknowledged_command_waits_no_more(now):
    beat()
    Worker.objects.tell(["w1"], Command.QUIET)
    now.advance(seconds=3)

    Worker.objects.acknowledge("w1", "quiet")

    worker = Worker.objects.get()
    assert (worker.command, worker.acknowledged, worker.acknowledged_at_ms) == ("", "quiet", now.at_ms)
    assert worker.has_obeyed(Command.QUIET)
    assert beat() == ""


def test_a_command_given_meanwhile_still_waits_after_the_acknowledgement(now):
    beat()
    Worker.objects.tell(["w1"], Command.QUIET)
    obeyed = beat()
    Worker.objects.tell(["w1"], Command.RESUME)

    Worker.objects.acknowledge("w1", obeyed)

    worker = Worker.objects.get()
    assert (worker.command, worker.acknowledged) == ("resume", "quiet")
    assert not worker.has_obeyed(Command.QUIET)


def test_an_old_acknowledgement_does_not_answer_a_new_command(now):
    beat()
    Worker.objects.acknowledge("w1", "quiet")
    now.advance(seconds=1)

    Worker.objects.tell(["w1"], Command.QUIET)

    assert not Worker.objects.get().has_obeyed(Command.QUIET)


def test_telling_names_how_many_it_reached(now):
    beat("w1")
    beat("w2")

    assert Worker.objects.tell(["w1", "gone"], Command.RESIGN) == 1
    assert dict(Worker.objects.values_list("id", "command")) == {"w1": "resign", "w2": ""}


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.RUNNING])
def test_a_worker_that_is_quiet_or_ends_is_alive_but_does_not_admit(now, status):
    beat("w1", status=status)
    beat("w2")

    assert set(Worker.objects.alive().values_list("id", flat=True)) == {"w1", "w2"}
    assert [worker.id for worker in Worker.objects.admitting()] == ["w2"]


def test_a_worker_that_is_silent_for_a_minute_is_not_alive(now):
    beat()
    now.advance(seconds=60)

    assert not Worker.objects.alive()
    assert not Worker.objects.get().alive_at(now.at_ms)
    assert Worker.objects.get().alive_at(now.at_ms - 1)


def test_ratios_are_none_without_anything_to_divide_by(now):
    beat(in_flight=1, recent_polls=128, recent_empty_polls=32)
    idle = Worker(capacity=0, in_flight=0)

    worker = Worker.objects.get()
    assert (worker.utilisation, worker.empty_poll_ratio) == (0.25, 0.25)
    assert (idle.utilisation, idle.empty_poll_ratio) == (None, None)


def test_a_star_serves_every_queue():
    assert Worker(queues={"*": 1}).serves("mail")
    assert Worker(queues={"mail": 1}).serves("mail")
    assert not Worker(queues={"mail": 1}).serves("other")
