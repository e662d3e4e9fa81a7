"""Fixtures: the clock, a gate, and the name of the database in every test's id."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headgate_django.core.outcomes import Claim
from headgate_django.gate.admit import Gate
from headgate_django.models import clock
from headgate_django.models.clock import FrozenClock
from tests.sample import jobs as sample_jobs

assert sample_jobs  # registers the sample handlers

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    # The name of the database is part of every test's id.
    metafunc.fixturenames.append("database_name")
    metafunc.parametrize("database_name", [os.environ.get("HEADGATE_TEST_DB", "sqlite")])


ANY_DATABASE = (
    "tests/core/",
    "tests/architecture/",
    "tests/commands/test_simulate.py",
    "tests/docs/test_pages.py",
    "tests/docs/test_tutorial.py",
    "tests/process/test_fork.py",
    "tests/process/test_health",
    "tests/process/test_no_threads.py",
    "tests/process/test_other_platforms.py",
    "tests/process/test_pid_one.py",
    "tests/process/test_reload.py",
    "tests/process/test_signal_storms.py",
)
"""Tests of what does not depend on the database, such as signals and probes: they run once, on SQLite."""


WAITING = ("tests/process/", "tests/example/", "tests/docs/", "tests/admin/test_browser.py")
"""Tests that mostly wait for other processes."""

SECOND_HALF = "tests/process/test_m"
"""From here on they are the second of two parts of about the same length."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what another process of this run does."""
    config.hook.pytest_deselected(items=[item for item in items if not _is_mine(item.nodeid)])
    items[:] = [item for item in items if _is_mine(item.nodeid)]


def _is_mine(test: str) -> bool:
    if os.environ.get("HEADGATE_TEST_DB", "sqlite") != "sqlite" and test.startswith(ANY_DATABASE):
        return False
    part = os.environ.get("HEADGATE_TEST_PART")
    return part is None or part == _part_of(test)


def _part_of(test: str) -> str:
    if not test.startswith(WAITING):
        return "computing"
    return "waiting-too" if test >= SECOND_HALF else "waiting"


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A process to which nothing was left is no failure, as long as another one ran something."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and reporter and reporter.stats.get("passed"):
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture
def vendor() -> str:
    """``sqlite`` or ``postgresql``."""
    from django.db import connection

    return connection.vendor


@pytest.fixture
def now(db: None) -> Iterator[FrozenClock]:
    """The store's clock, stopped; ``now.advance(seconds=5)`` moves it."""
    with clock.frozen(START_MS) as frozen:
        yield frozen


@pytest.fixture
def admit(db: None) -> Callable[..., list[Claim]]:
    """Admit from all queues as worker ``w1``: ``admit(4)``."""

    def call(capacity: int = 1, **options: Any) -> list[Claim]:
        options.setdefault("queues", {"*": 1})
        return Gate(options.pop("worker_id", "w1"), **options).admit(capacity)

    return call
