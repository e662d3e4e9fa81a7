"""Each fact has one place: states in the law, the time in the clock, settings in their page."""

from __future__ import annotations

import ast
import re
from dataclasses import fields

import pytest
from django.apps import apps

from headgate_django.conf import Config, parse
from headgate_django.core.states import State
from tests.architecture.source import PACKAGE, ROOT, dotted, modules, texts

LAW = "core/states.py"
CLOCK = "models/clock.py"

NO_STATE = {
    "admin/quarantine.py": {"quarantined"},  # the name of a column
    "admin/queues.py": {"available", "running", "scheduled", "retryable"},  # names of columns
    "core/simulation/report.py": {"completed"},  # the name of a number in the report
    "management/subcommands/simulate.py": {"completed"},  # the name of a number in the report
    "core/commands.py": {"running"},  # what a worker does, not a job
    "core/envelope.py": {"pending"},  # the name of a field of the envelope
    "exceptions.py": {"running"},  # the lowest room: it cannot import the law
    "gate/explain.py": {"running", "pending"},  # the name of the step that says no
    "models/fleet.py": {"running"},  # what a worker does, not a job
    "worker/runtime.py": {"running"},  # what a worker does, not a job
}
"""Words that happen to be the name of a state, and why they are none."""

IN_SQL = re.compile(rf"'({'|'.join(State)})'")
WALL_CLOCKS = {
    "time.time",
    "time.time_ns",
    "time.localtime",
    "time.gmtime",
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "date.today",
    "datetime.date.today",
    "timezone.now",
    "Now",
    "functions.Now",
}
CONVERSIONS = {"timezone.localtime", "timezone.localdate"}
"""Without an argument they read the wall clock."""

SQL_CLOCKS = re.compile(
    r"\b(now\(\)|current_timestamp|current_date|localtimestamp|clock_timestamp|statement_timestamp|julianday"
    r"|strftime|unixepoch)\b|\bnow\(\)",
    re.IGNORECASE,
)


def test_no_state_is_spelled_out_beside_the_law():
    found = {
        name: {text for text in texts(tree) if text in set(State)} - NO_STATE.get(name, set())
        for name, tree in modules().items()
        if name != LAW
    }

    assert {name: words for name, words in found.items() if words} == {}


def test_no_statement_spells_out_a_state_but_through_the_law():
    found = {name: [text for text in texts(tree) if IN_SQL.search(text)] for name, tree in modules().items()}

    assert {name: statements for name, statements in found.items() if statements} == {}


def test_no_template_compares_a_state_with_a_literal():
    compared = re.compile(rf"""state\w*\s*(==|!=|in)\s*["']({"|".join(State)})""")
    found = [path.name for path in PACKAGE.rglob("*.html") if compared.search(path.read_text("utf-8"))]

    assert found == []


@pytest.mark.parametrize("name", sorted(set(modules()) - {CLOCK}))
def test_the_wall_clock_is_read_in_one_place_only(name):
    calls = [node for node in ast.walk(modules()[name]) if isinstance(node, ast.Call)]
    read = {dotted(call.func) for call in calls if dotted(call.func) not in CONVERSIONS or not call.args}
    statements = [text for text in texts(modules()[name]) if SQL_CLOCKS.search(text)]

    assert read & (WALL_CLOCKS | CONVERSIONS) == set()
    assert statements == []


def test_no_column_fills_itself_with_the_wall_clock():
    keywords = {
        keyword.arg
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
    }

    assert keywords & {"auto_now", "auto_now_add"} == set()


def test_every_setting_is_documented_and_no_other():
    page = (ROOT / "docs" / "reference" / "settings.md").read_text("utf-8")
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE))

    assert documented == {field.name.upper() for field in fields(Config)}


def test_every_setting_can_be_set_to_its_default():
    defaults = Config()

    for field in fields(Config):
        if field.name == "retention":
            continue  # seconds in settings, milliseconds inside
        assert parse({field.name.upper(): getattr(defaults, field.name)}) == defaults


def test_the_hand_written_statements_name_only_tables_that_exist():
    tables = {model._meta.db_table for model in apps.get_app_config("headgate_django").get_models()}
    named = {
        found
        for tree in modules().values()
        for text in texts(tree)
        for found in re.findall(r"(?:FROM|INTO|UPDATE|JOIN)\s+(headgate_django_\w+)", text)
    }

    assert named <= tables
