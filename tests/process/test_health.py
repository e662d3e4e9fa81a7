"""Health as probes ask for it: a file, an HTTP port, systemd's socket. None of them needs the database."""

from __future__ import annotations

import json
import signal
import socket
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from headgate_django.core.states import State
from headgate_django.models import Job
from tests.sample import jobs
from tests.support.processes import Process, terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]


def ask(address: str, path: str) -> tuple[int, dict]:
    try:
        with urlopen(f"{address}/{path}", timeout=10) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.loads(error.read() or b"{}") if error.code == 503 else {}


def address_of(process: Process) -> str:
    return process.wait_for_line("health at http").split("health at ")[1].split("/live")[0]


def test_a_worker_that_serves_is_live_started_and_ready():
    with worker("--health-port", "0", "--processes", "2") as process:
        address = address_of(process)
        wait_until(lambda: ask(address, "ready")[0] == 200, "ready")
        answers = {path: ask(address, path)[0] for path in ("live", "started", "ready", "nonsense")}
        facts = ask(address, "live")[1]
        assert terminate(process) == 0

    assert address.startswith("http://127.0.0.1:")
    assert answers == {"live": 200, "started": 200, "ready": 200, "nonsense": 404}
    assert (facts["processes"], facts["serving"]) == (2, 2)


def test_without_a_database_a_worker_is_live_but_neither_started_nor_ready():
    with worker("--health-port", "0", ready=False, HEADGATE_TEST_DB_NAME="/nowhere/at/all") as process:
        address = address_of(process)
        answers = {path: ask(address, path)[0] for path in ("live", "started", "ready")}
        assert terminate(process) == 0

    assert answers == {"live": 200, "started": 503, "ready": 503}


def test_a_quiet_or_stopping_worker_is_not_ready_but_live():
    jobs.once.enqueue("n", 3.0)
    with worker("--health-port", "0") as process:
        address = address_of(process)
        wait_until(lambda: Job.objects.filter(state=State.RUNNING).exists(), "runs")
        process.signal(signal.SIGUSR1)
        wait_until(lambda: ask(address, "ready")[0] == 503, "not ready")
        process.signal(signal.SIGTERM)
        assert ask(address, "live")[0] == 200
        assert process.wait() == 0


def test_a_caller_that_says_nothing_holds_nobody_up():
    with worker("--health-port", "0") as process:
        host, _, port = address_of(process).removeprefix("http://").rpartition(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(30)]
        jobs.ok.enqueue()
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).exists(), "completed")
        wait_until(lambda: _answers(host, port), "answers again")
        for caller in silent:
            caller.close()
        assert terminate(process) == 0


def _answers(host: str, port: str) -> bool:
    try:
        return ask(f"http://{host}:{port}", "live")[0] == 200
    except OSError:
        return False


def test_the_health_file_is_fresh_while_all_is_well_and_gone_at_the_end(tmp_path):
    path = tmp_path / "health"
    with worker("--health-file", str(path)) as process:
        wait_until(path.exists, "written")
        first = path.stat().st_mtime_ns
        wait_until(lambda: path.stat().st_mtime_ns > first, "touched again")
        assert terminate(process) == 0

    assert not path.exists()


def test_systemd_hears_of_readiness_of_life_and_of_the_end(tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(path)
        systemd.settimeout(30)
        with worker(NOTIFY_SOCKET=path, ready=False) as process:
            heard = [systemd.recv(100).decode()]
            while {"READY=1", "WATCHDOG=1"} - set(heard):
                heard.append(systemd.recv(100).decode())
            process.signal(signal.SIGTERM)
            while "STOPPING=1" not in heard:
                heard.append(systemd.recv(100).decode())
            assert process.wait() == 0

    assert heard.index("READY=1") < heard.index("STOPPING=1")


def test_a_port_that_cannot_be_had_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with worker("--health-port", port, ready=False) as process:
            assert process.wait() == 1

    assert f"--health-port 127.0.0.1:{port}" in process.output


def test_a_health_file_that_cannot_be_written_is_named(tmp_path):
    path = str(tmp_path / "nowhere" / "health")
    with worker("--health-file", path, ready=False) as process:
        assert process.wait() == 1

    assert f"--health-file {path}" in process.output


def test_a_database_that_settings_do_not_know_is_named():
    with worker("--database", "nope", ready=False) as process:
        assert process.wait() == 1

    assert "--database 'nope': DATABASES has no such alias" in process.output
