"""``headgate simulate``: shipped scenarios end as documented, mistakes are named, the page works as written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from headgate_django.core.simulation import workers
from headgate_django.core.simulation.reading import parse
from headgate_django.core.simulation.report import Report, simulate
from headgate_django.lifecycle import wakeup
from headgate_django.management.subcommands.simulate import SHIPPED, shipped_names
from headgate_django.management.tabulate import duration
from headgate_django.worker import pace, runtime
from headgate_django.worker.options import OPTIONS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "simulate-a-policy.md").read_text("utf-8")

SMALL = """
title = "Small"
[[workers]]
threads = 2
[[tenants]]
name = "a"
queue = "one"
arrivals = { process = "burst", jobs = 200 }
[[tenants]]
name = "b"
queue = "two"
count = 20
arrivals = { process = "poisson", rate = 1 }
"""


def headgate(*arguments: str) -> str:
    out = StringIO()
    call_command("headgate", *arguments, stdout=out)
    return out.getvalue()


def shipped(name: str) -> dict[str, Any]:
    return tomllib.loads((SHIPPED / f"{name}.toml").read_text("utf-8"))


def line(report: Report, name: str) -> Report:
    return next(load for load in report["tenants"] if load["name"] == name)


def test_the_shipped_scenarios_are_listed_by_name_and_title():
    listed = headgate("simulate").splitlines()

    assert listed[::2] == shipped_names()
    assert [title.strip() for title in listed[1::2]] == [shipped(name)["title"] for name in shipped_names()]


def test_beside_a_noisy_tenant_the_others_are_served_at_once_and_alone_it_has_everything():
    report = simulate(parse(shipped("noisy-tenant")))

    assert report["completed"] == 100_100
    assert line(report, "others")["wait"]["max"] < 0.5
    assert line(report, "others")["finished"] < 31
    assert line(report, "A")["share"] > 0.99
    assert report["utilisation"] > 0.85


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_slow_tenant_holds_half_of_the_slots_beside_a_quick_one(seed):
    report = simulate(parse({**shipped("slow-tenant"), "seed": seed}))

    assert line(report, "slow")["entitled"] == 0.5
    assert line(report, "slow")["share"] == pytest.approx(0.5, abs=0.5 / 16 + 0.02)  # half, plus one slot
    assert line(report, "quick")["completed"] > 20_000
    assert report["utilisation"] > 0.95


@pytest.mark.parametrize("seed", [1, 2])
def test_two_budgets_hold_at_once_and_who_has_tokens_does_not_wait(seed):
    report = simulate(parse({**shipped("two-budgets"), "seed": seed}))

    assert [(budget["bound"], budget["held"]) for budget in report["budgets"]] == [(10, True), (120, True)]
    assert 100 <= line(report, "many calls")["completed"] <= 120
    assert line(report, "calls")["wait"]["max"] < 1
    assert line(report, "no calls")["wait"]["max"] < 1


def test_of_very_many_tenants_only_those_wait_that_want_more_than_their_share():
    scenario = shipped("ten-thousand-tenants")
    scenario |= {"duration": 40, "workers": [{"count": 4, "threads": 13}]}
    small, large = scenario["tenants"]
    small["count"] = 999
    large["arrivals"]["rate"] /= 10

    report = simulate(parse(scenario))

    assert report["jobs"] == pytest.approx(26_000, rel=0.05)
    assert report["left"] == 0
    assert line(report, "small")["wait"]["p99"] < 0.2
    assert line(report, "large")["wait"]["p50"] > 5
    assert line(report, "small")["share"] == pytest.approx(line(report, "small")["entitled"], abs=0.05)
    assert report["utilisation"] > 0.9


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return str(path)


def test_the_numbers_are_the_same_in_every_process(small):
    def run(hash_seed: str) -> str:
        command = [sys.executable, str(ROOT / "manage.py"), "headgate", "simulate", small, "--json"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "DJANGO_SETTINGS_MODULE": "tests.settings"}
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        ).stdout

    first, second = run("1"), run("2")

    assert first == second
    assert json.loads(first)["completed"] > 1_000


def test_a_seed_on_the_command_line_wins(small):
    own, other = (json.loads(headgate("simulate", small, "--json", "--seed", seed)) for seed in ("1", "2"))

    assert (own["seed"], other["seed"]) == (1, 2)
    assert own["tenants"] != other["tenants"]


def test_the_report_for_people_shows_tenants_and_queues(small):
    text = headgate("simulate", small)

    assert re.search(r"^tenants +jobs +refused +completed +wait p50 .* share +entitled$", text, re.MULTILINE)
    assert re.search(r"^a +200 +0 +200 ", text, re.MULTILINE)
    assert re.search(r"^b \(20\) +1,\d\d\d +0 ", text, re.MULTILINE)
    assert "starts while every queue had work" in text
    assert "budgets" not in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tittle = 'x'", "tittle is not a key; did you mean 'title'?"),
        ("title = ", "cannot be read: Invalid value"),
        ("title = 'x'\nworkers = [{}]", "tenants is missing"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_the_file(tmp_path, text, message):
    path = tmp_path / "wrong.toml"
    path.write_text(text)

    with pytest.raises(CommandError) as refusal:
        headgate("simulate", str(path))

    assert str(refusal.value).startswith(str(path))
    assert message in str(refusal.value)


def test_an_unknown_scenario_is_answered_with_the_closest():
    with pytest.raises(CommandError, match="there is no file 'noisy-tenat'; did you mean 'noisy-tenant'"):
        headgate("simulate", "noisy-tenat")


def test_a_subcommand_must_be_named():
    with pytest.raises(CommandError, match="SUBCOMMAND"):
        headgate()


def test_the_page_works_as_written(tmp_path, monkeypatch):
    [scenario] = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "newsletter.toml").write_text(scenario)
    monkeypatch.chdir(tmp_path)

    for block in re.findall(r"^```console\n\$ python manage.py (.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        command, *shown = block.splitlines()
        lines = headgate(*command.split()[1:]).splitlines()
        assert lines[: len(shown)] == shown


def test_the_variations_of_the_page_do_what_it_says():
    [scenario] = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

    def longest_wait(**changes: Any) -> float:
        declared = tomllib.loads(scenario)
        declared["tenants"][1]["jobs"] |= changes.pop("jobs", {})
        declared["tenants"][1] |= changes
        return line(simulate(parse(declared)), "confirmations")["wait"]["p95"]

    assert longest_wait() < 0.5
    assert longest_wait(partition="newsletter") > 60
    assert longest_wait(partition="newsletter", jobs={"priority": 1}) < 1


def test_a_simulated_worker_asks_at_the_times_of_a_real_one():
    longest = next(option.default for option in OPTIONS if option.name == "poll_interval")

    assert workers.FLUSH_MS == 1000 * runtime.FLUSH_SECONDS
    assert (workers.FIRST_PAUSE_MS, workers.JITTER) == (1000 * pace.FIRST_PAUSE, pace.JITTER)
    assert 1000 * longest == workers.LONGEST_PAUSE_MS
    assert workers.NOTIFY_MS == 1000 * wakeup.MIN_INTERVAL


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.05, "50 ms"), (12.34, "12.3 s"), (599.9, "599.9 s"), (600, "10 min"), (7_500, "2 h 05 min")],
)
def test_durations_are_as_exact_as_people_want_them(seconds, text):
    assert duration(seconds) == text
