"""``headgate health``: one line a check, an exit code for monitoring, and no secret when the database is down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from headgate_django.core.states import State
from headgate_django.models import Worker
from tests.support.builders import in_state, queued

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[2]
SECRET = "hunter2"


def beat(worker_id="w1", queue="*", **columns):
    columns = {"hostname": "h", "pid": 7, "version": "1", "capacity": 4, **columns}
    Worker.objects.beat(worker_id, queues={queue: 1}, **columns)


def health(*arguments: str, code: int = 0) -> str:
    out = StringIO()
    if code:
        with pytest.raises(SystemExit) as end:
            call_command("headgate", "health", *arguments, stdout=out)
        assert end.value.code == code
    else:
        call_command("headgate", "health", *arguments, stdout=out)
    return out.getvalue()


def test_a_healthy_queue_has_a_line_for_each_check_and_exit_code_0(now):
    beat()

    lines = health("--max-dead", "0").splitlines()

    assert [line[9:23].strip() for line in lines] == [
        "database", "migrations", "workers", "queues", "waits", "dead letters", "duties", "stuck threads",
        "wake-up", "silent workers",
    ]  # fmt: skip
    assert {line.split()[0] for line in lines} == {"ok"}


def test_a_queue_that_nobody_serves_is_exit_code_1(now):
    beat(queue="high")
    queued(queue="hihg")

    assert "failed   queues          no live worker admits from 'hihg'" in health(code=1).splitlines()


def test_no_worker_is_exit_code_1_unless_none_is_wanted(now):
    health(code=1)
    health("--min-workers", "0")
    beat()
    health()
    health("--min-workers", "2", code=1)


def test_a_warning_is_no_failure(now):
    beat("gone")
    now.advance(minutes=2)
    beat()

    assert "warning  silent workers  1 not heard of for a minute" in health().splitlines()


@pytest.mark.parametrize(("threshold", "code"), [("9", 1), ("10", 0), ("0", 0)])
def test_the_longest_wait_is_a_threshold_and_0_does_not_look(threshold, code, now):
    queued()
    now.advance(seconds=10)
    beat()

    health("--max-wait", threshold, code=code)


def test_dead_letters_are_a_threshold_only_when_asked_for(now):
    beat()
    in_state(State.ARCHIVED)

    health()
    health("--max-dead", "1")
    health("--max-dead", "0", code=1)


def test_stuck_threads_are_a_threshold(now):
    beat(stuck=1)

    health(code=1)
    health("--max-stuck", "1")


def test_machines_get_json(now):
    beat(queue="high")
    queued(queue="q")

    answer = json.loads(health("--json", code=1))

    assert (answer["healthy"], answer["reachable"]) == (False, True)
    found = next(check for check in answer["checks"] if check["name"] == "queues")
    assert found == {
        "name": "queues",
        "level": "failed",
        "detail": "no live worker admits from 'q'",
        "value": 1,
        "limit": 0,
    }


@pytest.mark.parametrize("arguments", ["--min-workers=-1", "--max-wait=soon", "--max-dead=1.5", "--max-wait=inf"])
def test_a_threshold_that_makes_no_sense_is_refused(arguments):
    with pytest.raises(CommandError, match=f"argument {arguments.partition('=')[0]}: must be"):
        health(arguments)


DOWN = {
    "postgres": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "shop",
        "USER": "clerk",
        "PASSWORD": SECRET,
        "HOST": "127.0.0.1",
        "PORT": "1",
        "OPTIONS": {"sslkey": f"/keys/{SECRET}"},
    },
    "a broken connection string": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": f"postgresql://clerk:{SECRET}@127.0.0.1:nonsense/shop",
    },
    "sqlite": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"/nowhere/{SECRET}/db.sqlite3"},
}


def run(tmp_path, database, *arguments):
    """The command in a process of its own, on a database that does not answer."""
    (tmp_path / "down.py").write_text(f"from tests.settings import *\nDATABASES = {{'default': {database!r}}}\n")
    environment = {
        **os.environ,
        "HEADGATE_TEST_DB": "sqlite",
        "DJANGO_SETTINGS_MODULE": "down",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
    }
    command = [sys.executable, str(ROOT / "manage.py"), "headgate", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("name", DOWN)
def test_a_database_that_does_not_answer_is_exit_code_2_and_tells_no_secret(name, tmp_path):
    plain = run(tmp_path, DOWN[name], "health")
    asked = run(tmp_path, DOWN[name], "-v", "3", "health", "--json")

    assert (plain.returncode, plain.stdout, plain.stderr) == (
        2,
        "failed   database  'default' does not answer\n",
        "",
    )
    assert (asked.returncode, json.loads(asked.stdout)["reachable"], asked.stderr) == (2, False, "")
    assert SECRET not in plain.stdout + asked.stdout


@pytest.mark.parametrize("name", DOWN)
def test_other_subcommands_tell_no_secret_either(name, tmp_path):
    ended = run(tmp_path, DOWN[name], "workers")

    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr == "CommandError: database 'default' does not answer, or is not migrated\n"
