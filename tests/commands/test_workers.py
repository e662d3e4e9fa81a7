"""``headgate workers``: the register as a table, and commands that are acknowledged."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.contrib.admin.models import LogEntry
from django.core.management import CommandError, call_command

from headgate_django.core.commands import Command
from headgate_django.models import Worker
from headgate_django.models.clock import now_ms
from tests.support.locks import Running

pytestmark = pytest.mark.django_db

JOB = {"id": "01J", "kind": "mail:send", "started_at_ms": 1_767_225_597_000}


def beat(worker_id="w1", **columns):
    columns = {"hostname": "h", "pid": 7, "version": "1", "queues": {"*": 1}, "capacity": 4, **columns}
    return Worker.objects.beat(worker_id, **columns)


def workers(*arguments: str, code: int = 0) -> str:
    out = StringIO()
    if code:
        with pytest.raises(SystemExit) as end:
            call_command("headgate", "workers", *arguments, stdout=out)
        assert end.value.code == code
    else:
        call_command("headgate", "workers", *arguments, stdout=out)
    return out.getvalue()


def cells(text: str) -> dict[str, str]:
    """The first row of the table by its headings; both are as wide as the column."""
    headings, row = text.splitlines()[:2]
    names = [name for name in headings.split("  ") if name]
    values = [value for value in row.split("  ") if value]
    return dict(zip((name.strip() for name in names), (value.strip() for value in values), strict=True))


def test_the_list_says_how_each_worker_is(now):
    beat(
        "w1",
        supervisor="imports",
        code_version="abc",
        queues={"mail": 3, "default": 1},
        in_flight=1,
        stuck=1,
        recent_polls=128,
        recent_empty_polls=16,
        rss_bytes=50 * 2**20,
    )
    now.advance(seconds=5)

    assert cells(workers()) == {
        "worker": "w1",
        "supervisor": "imports",
        "host": "h",
        "pid": "7",
        "code": "abc",
        "queues": "default:1,mail:3",
        "status": "running",
        "in flight": "1/4",
        "stuck": "1",
        "used": "25.0 %",
        "empty polls": "12.5 %",
        "memory": "50.0 MiB",
        "heard of": "5.0 s ago",
        "command": "-",
    }


def test_a_command_is_shown_until_it_is_obeyed_and_then_as_obeyed(now):
    beat()
    workers("quiet", "w1")
    waiting = cells(workers())["command"]

    Worker.objects.acknowledge("w1", "quiet")

    assert (waiting, cells(workers())["command"]) == ("quiet: waits", "quiet: obeyed")


def test_who_is_silent_says_so_and_is_in_no_sum(now):
    beat("gone", capacity=100)
    now.advance(minutes=2)

    text = workers("list")

    assert cells(text)["status"] == "silent"
    assert "fleet: 0 live, 1 silent, 0 of 0 slots in use (-), - of recent polls found nothing" in text


def test_the_fleet_is_summed_up_below(now):
    beat("w1", capacity=30, in_flight=30, recent_polls=100, queues={"mail": 1})
    beat("w2", capacity=10, recent_polls=20, recent_empty_polls=12, queues={"mail": 1, "other": 2})

    *_, fleet, queues = workers().splitlines()

    assert fleet == "fleet: 2 live, 0 silent, 30 of 40 slots in use (75.0 %), 10.0 % of recent polls found nothing"
    assert queues == "live workers by queue: mail 2, other 1"


def test_what_runs_is_shown_when_asked_for(now):
    beat(current_jobs=[JOB])

    assert "mail:send" not in workers()
    for arguments in (["-v"], ["list", "-v"]):
        assert "w1  01J  mail:send  3.0 s" in workers(*arguments)


def test_machines_get_json(now):
    beat(current_jobs=[JOB], in_flight=1)

    answer = json.loads(workers("--json"))

    [worker] = answer["workers"]
    assert (worker["id"], worker["alive"], worker["utilisation"], worker["current_jobs"]) == (
        "w1",
        True,
        0.25,
        [JOB],
    )
    assert answer["fleet"]["live"] == 1
    assert answer["fleet"]["queues"] == {"*": 1}


def test_an_empty_register_is_no_error(now):
    assert workers().startswith("fleet: 0 live")
    assert json.loads(workers("list", "--json"))["workers"] == []


def test_what_is_stored_cannot_steer_the_terminal(now):
    beat("w\x1b[2J1", hostname="h\x07", current_jobs=[{**JOB, "id": "j\x1b[31m"}])

    text = workers("-v")

    assert text.replace("\n", "").isprintable()
    assert r"w\x1b[2J1" in text


@pytest.mark.parametrize("order", Command)
def test_every_command_reaches_the_named_worker_and_no_other(order, now):
    beat("w1")
    beat("w2")

    assert workers(order, "w1") == f"{order}: 1 done\n"
    assert dict(Worker.objects.values_list("id", "command")) == {"w1": order, "w2": ""}


def test_the_command_line_is_trusted_and_leaves_no_log_entry(now):
    beat()

    workers("quiet", "w1")

    assert not LogEntry.objects.exists()


def test_all_are_the_living(now):
    beat("gone")
    now.advance(minutes=2)
    beat("w1")
    beat("w2")

    assert workers("quiet", "--all") == "quiet: 2 done\n"
    assert Worker.objects.get(pk="gone").command == ""


def test_a_supervisor_stands_for_its_processes(now):
    beat("a:1", supervisor="a")
    beat("a:2", supervisor="a")

    assert workers("restart", "a") == "restart: 2 done\n"


@pytest.mark.parametrize("arguments", [["quiet"], ["quiet", "w1", "--all"]])
def test_one_names_workers_or_all_of_them(arguments, now):
    with pytest.raises(CommandError, match="name workers or supervisors, or say --all"):
        workers(*arguments)


def test_who_could_not_be_told_is_counted_and_the_exit_code_says_so(now):
    beat("w1")

    assert workers("quiet", "w1", "nobody", code=1) == "quiet: 1 done; 1 skipped: gone\n"


def test_who_does_not_acknowledge_in_time_is_named(now):
    beat("w1")
    beat("w2")

    text = workers("quiet", "w1", "w2", "--wait", "0", code=1)

    assert text == "quiet: 2 done\nnot acknowledged: w1\nnot acknowledged: w2\n"


def test_json_says_who_did_not_acknowledge(now):
    beat("w1")

    answer = json.loads(workers("quiet", "w1", "gone", "--wait", "0", "--json", code=1))

    assert answer == {"command": "quiet", "done": 1, "skipped": {"gone": 1}, "more": False, "missing": ["w1"]}


@pytest.mark.parametrize("seconds", ["soon", "-1", "nan"])
def test_a_wait_that_is_none_is_refused(seconds, now):
    with pytest.raises(CommandError, match="--wait"):
        workers("quiet", "w1", f"--wait={seconds}")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("order", [Command.QUIET, Command.TERMINATE])
def test_waiting_ends_when_the_last_has_acknowledged_or_left(order):
    beat()

    def obey() -> int:
        while not (found := beat()):
            pass
        if order is Command.TERMINATE:
            Worker.objects.filter(pk="w1").delete()
        else:
            Worker.objects.acknowledge("w1", found)
        return now_ms("default")

    worker = Running(obey)
    text = workers(order, "w1", "--wait", "60")

    assert text == f"{order}: 1 done\n"
    assert worker.result() <= now_ms("default")
