"""``headgate_worker --reload``: a save brings the new code, and costs no job anything."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headgate_django.core.envelope import Envelope
from headgate_django.core.states import State
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.models import Attempt, Job, Worker
from tests.support.builders import EnvelopeFactory
from tests.support.processes import ROOT, Process, environment, wait_until

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

SETTINGS = """
from tests.settings import DATABASES
SECRET_KEY = "only-for-tests"
USE_TZ = True
INSTALLED_APPS = ["headgate_django", "garden"]
"""

JOBS = """
import time
from pathlib import Path

import tools
from headgate_django import job


@job("garden:grow")
def grow(seconds: float = 0) -> None:
    note = Path(__file__).parent.parent / "notes"
    with note.open("a") as file:
        file.write(f"began {tools.NAME}\\n")
    time.sleep(seconds)
    with note.open("a") as file:
        file.write(f"ended {tools.NAME}\\n")
"""


class Project:
    """A small project in a folder: settings, one app, and a module that belongs to no app."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.save("settings.py", SETTINGS)
        self.save("garden/__init__.py", "")
        self.save("garden/jobs.py", JOBS)
        self.save("tools.py", 'NAME = "old"\n')

    def save(self, path: str, text: str) -> None:
        """As editors do: a new file takes the place of the old one."""
        target = self.folder / path
        target.parent.mkdir(exist_ok=True)
        fresh = target.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(target)

    @property
    def notes(self) -> list[str]:
        """What the handlers have written down."""
        note = self.folder / "notes"
        return note.read_text().splitlines() if note.exists() else []


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def reloading(project: Project) -> Iterator[Callable[..., Process]]:
    """Start ``headgate_worker --reload`` in the project."""
    started: list[Process] = []

    def start(*options: str) -> Process:
        variables = environment(
            DJANGO_SETTINGS_MODULE="settings",
            PYTHONPATH=f"{project.folder}{os.pathsep}{ROOT}",
            PYTHONDONTWRITEBYTECODE="1",  # two saves within one second look alike to the cache of bytecode
        )
        command = [sys.executable, "-m", "django", "headgate_worker", "--reload", *options]
        started.append(Process(command, variables))
        started[0].wait_for_line("ready")
        return started[0]

    yield start
    for process in started:
        process.end()


def grow(seconds: float = 0) -> Envelope:
    return EnvelopeFactory(kind="garden:grow", arguments={"seconds": seconds})


def completed() -> int:
    return Job.objects.filter(state=State.COMPLETED).count()


def costs() -> set[tuple[int, int]]:
    return set(Job.objects.values_list("attempt", "crash_attempt"))


def test_a_saved_file_brings_the_new_code_also_when_it_belongs_to_no_app(project, reloading):
    process = reloading()
    enqueue([grow()])
    wait_until(lambda: completed() == 1, "the old code ran")

    project.save("tools.py", 'NAME = "changed"\n')
    wait_until(lambda: process.output.count("starting, pid") == 2, "started again")
    project.save("garden/jobs.py", JOBS.replace("began", "started"))
    wait_until(lambda: process.output.count("starting, pid") == 3, "and again")
    enqueue([grow()])
    wait_until(lambda: completed() == 2, "the new code ran")
    process.signal(signal.SIGTERM)

    assert process.wait() == 0, process.output
    assert project.notes == ["began old", "ended old", "started changed", "ended changed"]
    assert Worker.objects.count() == 0


def test_a_new_file_and_a_removed_one_are_changes(project, reloading):
    process = reloading()

    project.save("garden/tests.py", "")
    wait_until(lambda: process.output.count("starting, pid") == 2, "started again")
    (project.folder / "garden/tests.py").unlink()
    wait_until(lambda: process.output.count("starting, pid") == 3, "and again")
    process.signal(signal.SIGTERM)

    assert process.wait() == 0, process.output


def test_a_short_job_may_finish_before_the_worker_starts_afresh(project, reloading):
    process = reloading()
    enqueue([grow(1.2)])
    wait_until(lambda: project.notes, "began")

    project.save("tools.py", 'NAME = "changed"\n')
    wait_until(lambda: completed() == 1, "finished")
    process.signal(signal.SIGTERM)

    assert process.wait() == 0, process.output
    assert project.notes[0] == "began old"
    assert costs() == {(0, 0)}


def test_a_long_job_is_given_back_and_runs_again_with_the_new_code(project, reloading):
    process = reloading()
    enqueue([grow(300)])
    wait_until(lambda: project.notes, "began")

    project.save("garden/jobs.py", JOBS.replace("time.sleep(seconds)", "pass"))
    wait_until(lambda: completed() == 1, "ran again")
    process.signal(signal.SIGTERM)

    assert process.wait() == 0, process.output
    assert project.notes == ["began old", "began old", "ended old"]
    assert costs() == {(0, 0)}
    assert list(Job.objects.values_list("interruptions", flat=True)) == [1]
    assert set(Attempt.objects.values_list("outcome", flat=True)) == {"interrupt"}


def test_a_syntax_error_shows_and_the_next_save_recovers(project, reloading):
    process = reloading()

    project.save("garden/jobs.py", "def broken(:\n")
    process.wait_for_line("waiting for the next change")
    enqueue([grow()])
    project.save("garden/jobs.py", JOBS)
    wait_until(lambda: completed() == 1, "the repaired code ran")
    process.signal(signal.SIGTERM)

    assert process.wait() == 0, process.output
    assert "SyntaxError" in process.output
    assert "garden" in process.output


def test_ctrl_c_lets_a_job_finish(project, reloading):
    process = reloading()
    enqueue([grow(1.5)])
    wait_until(lambda: project.notes, "began")

    process.signal_group(signal.SIGINT)

    assert process.wait() == 0, process.output
    assert completed() == 1
    assert Worker.objects.count() == 0


def test_a_second_ctrl_c_gives_the_job_back_at_once(project, reloading):
    process = reloading("--shutdown-timeout", "300")
    enqueue([grow(300)])
    wait_until(lambda: project.notes, "began")

    process.signal_group(signal.SIGINT)
    process.wait_for_line("stopping: 1 running")
    process.signal_group(signal.SIGINT)

    assert process.wait() == 0, process.output
    assert list(Job.objects.values_list("state", "interruptions", "crash_attempt")) == [(State.AVAILABLE, 1, 0)]


def test_ctrl_c_ends_it_also_while_the_code_is_broken(project, reloading):
    process = reloading()
    project.save("garden/jobs.py", "def broken(:\n")
    process.wait_for_line("waiting for the next change")

    process.signal_group(signal.SIGINT)

    assert process.wait() == 0, process.output


def test_a_worker_whose_reloader_is_killed_ends_in_order(reloading):
    process = reloading()
    assert Worker.objects.exists()

    process.signal(signal.SIGKILL)

    wait_until(lambda: not Worker.objects.exists(), "it has left")
