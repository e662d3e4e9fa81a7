"""A worker without work: silent, few statements, nothing that grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate_django.models import Worker
from tests.support.processes import Process, terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

LOGGED = """\
from tests.settings import *

DEBUG = {debug}
LOGGING = {{
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {{"plain": {{"format": "%(levelname)s %(name)s %(message)s"}}}},
    "handlers": {{"stderr": {{"class": "logging.StreamHandler", "formatter": "plain"}}}},
    "root": {{"handlers": ["stderr"], "level": "{level}"}},
    "loggers": {{"django.db.backends": {{"level": "{level}"}}}},
}}
"""


@pytest.fixture
def logged(tmp_path: Path):
    """The variables of a worker that logs from this level on; with DEBUG that is every statement."""

    def variables(level: str, *, debug: bool) -> dict[str, str]:
        (tmp_path / "logged_settings.py").write_text(LOGGED.format(level=level, debug=debug))
        return {"DJANGO_SETTINGS_MODULE": "logged_settings", "PYTHONPATH": str(tmp_path)}

    return variables


def polls() -> int:
    return Worker.objects.values_list("polls", flat=True).first() or 0


def after_ready(process: Process) -> list[str]:
    start = next(number for number, line in enumerate(process.lines) if " ready: " in line)
    return process.lines[start + 1 :]


def test_an_idle_worker_logs_nothing_at_info(logged):
    with worker("--poll-interval", "0.1", "--lease", "1", **logged("INFO", debug=False)) as process:
        wait_until(lambda: polls() >= 20, "twenty empty polls")
        assert after_ready(process) == []
        assert terminate(process) == 0, process.output


def test_an_idle_worker_sends_a_few_statements_a_poll(logged):
    with worker("--poll-interval", "0.1", "--lease", "1", "--no-duties", **logged("DEBUG", debug=True)) as process:
        wait_until(lambda: polls() >= 20, "twenty empty polls")
        statements = [line for line in after_ready(process) if line.startswith("DEBUG django.db.backends")]
        assert terminate(process) == 0, process.output

    # A poll is BEGIN, the time, what is due, streams and COMMIT. SQLite's file is looked at twenty times a second.
    statements = [line for line in statements if "data_version" not in line]
    assert 60 <= len(statements) <= 20 * 15, statements[-50:]
