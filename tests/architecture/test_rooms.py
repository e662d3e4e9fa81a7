"""Rooms are layers, and the core stands alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.architecture.source import PACKAGE, ROOT

IMPORT_THE_CORE = """
import importlib, pkgutil, sys
import headgate_django.core
for module in pkgutil.iter_modules(headgate_django.core.__path__):
    importlib.import_module(f"headgate_django.core.{module.name}")
print(sorted(name for name in ("django", "psycopg", "asgiref", "sqlite3") if name in sys.modules))
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_every_file_imports_only_from_its_own_room_and_lower_ones():
    answer = run(str(Path(sys.executable).with_name("lint-imports")), "--no-cache")

    assert answer.returncode == 0, answer.stdout
    assert "0 broken" in answer.stdout


def test_the_core_needs_neither_django_nor_settings_nor_a_database():
    answer = run(sys.executable, "-c", IMPORT_THE_CORE)

    assert (answer.returncode, answer.stdout.strip()) == (0, "[]"), answer.stderr


def test_the_exceptions_need_nothing_either():
    answer = run(sys.executable, "-c", "import headgate_django.exceptions, sys; print('django' in sys.modules)")

    assert (answer.returncode, answer.stdout.strip()) == (0, "False"), answer.stderr


def test_the_package_can_be_imported_before_the_settings_are_known():
    answer = run(sys.executable, "-c", "import headgate_django; print(headgate_django.__version__)")

    assert answer.returncode == 0, answer.stderr


def test_no_module_takes_the_name_of_another_project():
    assert not (ROOT / "headgate").exists()
    commands = PACKAGE / "management" / "commands"  # a command's file is named after it, and nobody imports it
    assert [path.parent for path in PACKAGE.rglob("headgate.py")] in ([], [commands])
