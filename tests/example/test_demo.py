"""``manage.py demo`` as a newcomer runs it: real workers, a real site, on a database of its own."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.support.postgres import URL

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.process


@pytest.fixture
def demo_url(database_name: str, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database of the kind that this process tests."""
    if database_name == "sqlite":
        yield f"sqlite:///{tmp_path}/demo.sqlite3"
        return
    name = f"demo_{secrets.token_hex(4)}"
    with psycopg.connect(os.environ[URL], autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        yield urlsplit(os.environ[URL])._replace(path=f"/{name}").geturl()
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def manage(demo_url: str) -> Callable[..., subprocess.Popen[str]]:
    """Start a command of the example project: ``manage("demo", "--check", DEBUG="0")``."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name != "DJANGO_SETTINGS_MODULE" and not name.startswith("HEADGATE_")
    }

    def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-u", str(ROOT / "manage.py"), *arguments],
            env={**inherited, "DATABASE_URL": demo_url, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=150)
    return process.returncode, output


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_check_passes_again_on_the_same_database_and_with_debug_off(manage):
    for debug in ("1", "0"):
        code, output = finish(manage("demo", "--check", "--seconds", "120", DEBUG=debug))

        assert code == 0, output
        assert "every job is where it must be" in output
        assert output.count("died: exit code 70") == 1


def test_the_check_names_the_jobs_that_are_not_where_they_must_be(manage):
    finish(manage("migrate", "--verbosity", "0"))
    pause = "from headgate_django.models import Queue; Queue.objects.create(name='reports', paused=True)"
    assert finish(manage("shell", "-c", pause))[0] == 0

    code, output = finish(manage("demo", "--check", "--seconds", "8"))

    assert code != 0
    assert "shop:make_invoice completed: 0 instead of 54" in output


def test_a_signal_stops_the_demo_and_all_its_processes(manage, vendor):
    number = signal.SIGINT if vendor == "sqlite" else signal.SIGTERM
    with manage("demo") as demo:
        seen = ""
        for line in iter(demo.stdout.readline, ""):
            seen += line
            if "completed" in line:
                break
        processes: list[int] = []
        for _ in range(20):  # one of the two may be just being replaced: the poison kills one
            _, fleet = finish(manage("headgate", "workers", "--json"))
            processes = [worker["pid"] for worker in json.loads(fleet)["workers"]]
            if len(processes) >= 2:
                break

        demo.send_signal(number)
        seen += demo.stdout.read()
        code = demo.wait(60)

    pids = {int(pid) for pid in re.findall(r"\(pid (\d+)\)", seen)}
    pids |= set(processes)
    assert code == 0, seen
    assert len(pids) >= 4  # the site, the worker and its two processes
    assert not [pid for pid in pids if is_alive(pid)]
