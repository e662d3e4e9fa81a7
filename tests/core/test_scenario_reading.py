"""A scenario file with a mistake is refused, and the message names the key."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import pytest

from headgate_django.core.allocation import Group
from headgate_django.core.simulation.chance import (
    Burst,
    Choice,
    Constant,
    Exponential,
    Lognormal,
    Poisson,
    Steady,
    Uniform,
)
from headgate_django.core.simulation.reading import parse
from headgate_django.core.turnstile import Scope
from headgate_django.exceptions import ConfigurationError

GOOD: dict[str, Any] = {
    "title": "t",
    "workers": [{"count": 2, "threads": 4, "queues": {"default": 2, "*": 1}}],
    "tenants": [
        {
            "name": "a",
            "arrivals": {"process": "poisson", "rate": 2},
            "jobs": {"duration": {"distribution": "exponential", "mean": 0.5}, "rate_class": "api"},
        }
    ],
    "queues": {"default": {"weight": 3}},
    "rate_classes": {"api": ["100/minute", {"limit": 5, "window": 1, "per_partition": True}]},
    "concurrency_limits": {"one": {"queue": "default", "max_concurrent": 1}},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good scenario with one key set, or, for ``...``, taken out."""
    scenario: Any = deepcopy(GOOD)
    *parents, key = [int(part) if part.isdigit() else part for part in path.split("/")]
    inner = scenario
    for parent in parents:
        inner = inner[parent]
    if value is ...:
        del inner[key]
    else:
        inner[key] = value
    return scenario


def test_a_scenario_is_what_its_file_says():
    scenario = parse(GOOD)

    [workers], [load] = scenario.workers, scenario.loads
    assert (scenario.slots, workers.queues, load.tenants) == (8, {"default": 2, "*": 1}, 1)
    assert load.arrivals == Poisson(2, 0, 60_000)
    assert (load.duration, load.weight) == (Exponential(0.5), Constant(1))
    assert [(one.limit, one.window_ms) for one in scenario.rate_classes["api"]] == [(100, 60_000), (5, 1_000)]
    assert [(one.name, one.scope) for one in scenario.ceilings] == [("one", Scope.QUEUE)]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("titel", "x", "titel is not a key; did you mean 'title'?"),
        ("title", ..., "title is missing"),
        ("title", 5, "title must be text, not 5"),
        ("seed", "x", "seed must be a whole number"),
        ("duration", 0, "duration: must be at least 0.001 seconds"),
        ("duration", "long", "duration: must be seconds"),
        ("workers", ..., "workers is missing"),
        ("workers", [], r"workers must be given as \[\[workers\]\]"),
        ("workers/0/thread", 8, r"workers\[0\].thread is not a key; did you mean 'threads'\?"),
        ("workers/0/threads", 0, r"workers\[0\].threads must be a whole number from 1"),
        ("workers/0/threads", True, r"workers\[0\].threads must be a whole number"),
        ("workers/0/threads", 100_000, "workers have 200000 threads; at most 100000"),
        ("workers/0/queues", "default:3", r"workers\[0\].queues must be a table of names and weights"),
        ("workers/0/queues/default", 0, r"workers\[0\].queues.default must be a whole number from 1"),
        ("tenants", {"name": "a"}, r"tenants must be given as \[\[tenants\]\]"),
        ("tenants/0/name", ..., r"tenants\[0\].name is missing"),
        ("tenants/0/arrivals", ..., r"tenants\[0\].arrivals is missing"),
        ("tenants/0/arrivals", "poisson", r"tenants\[0\].arrivals must be a table"),
        ("tenants/0/arrivals/process", ..., r"tenants\[0\].arrivals.process is missing; known are: burst"),
        ("tenants/0/arrivals/process", "poison", r"arrivals.process is 'poison'; did you mean 'poisson'\?"),
        ("tenants/0/arrivals/at", 3, r"tenants\[0\].arrivals.at is not a key"),
        ("tenants/0/arrivals/rate", -1, r"tenants\[0\].arrivals.rate must be a positive number, not -1"),
        ("tenants/0/jobs/durations", 1, r"tenants\[0\].jobs.durations is not a key; did you mean 'duration'\?"),
        ("tenants/0/jobs/duration", 0, r"tenants\[0\].jobs.duration must be a positive number"),
        ("tenants/0/jobs/duration/distribution", "normal", "distribution is 'normal'; did you mean 'lognormal'"),
        ("tenants/0/jobs/duration/mean", ..., r"tenants\[0\].jobs.duration.mean is missing"),
        ("tenants/0/jobs/weight", 1.5, r"tenants\[0\].jobs.weight must be a whole number"),
        (
            "tenants/0/jobs/weight",
            {"distribution": "choice", "values": [1, 2], "odds": [1]},
            r"tenants\[0\].jobs.weight.odds must be a list of 2 numbers",
        ),
        (
            "tenants/0/jobs/weight",
            {"distribution": "uniform", "low": 5, "high": 2},
            r"tenants\[0\].jobs.weight.low is above tenants\[0\].jobs.weight.high",
        ),
        ("tenants/0/queue", "", r"tenants\[0\].queue"),
        ("tenants/0/count", 2_000_000, r"tenants\[0\].count must be a whole number from 1 to 1000000"),
        ("queues/default", {"wait": 1}, r"queues\['default'\]\['wait'\] is not an option; did you mean 'weight'"),
        ("rate_classes/api", ["100 a minute"], r"rate_classes\['api'\]\[0\] must look like '100/minute'"),
        ("rate_classes/api", [{"limit": 1}], r"rate_classes\['api'\]\[0\] lacks 'window'"),
        ("concurrency_limits/one/max", 1, r"concurrency_limits\['one'\]\['max'\] is not an option"),
    ],
)
def test_a_mistake_is_named(path, value, message):
    with pytest.raises(ConfigurationError, match=message):
        parse(changed(path, value))


def test_two_classes_of_tenants_cannot_have_one_name():
    with pytest.raises(ConfigurationError, match=r"tenants\[1\].name: 'a' is there twice"):
        parse({**GOOD, "tenants": GOOD["tenants"] * 2})


def test_classes_that_share_their_tenants_must_agree_on_them():
    other = {**GOOD["tenants"][0], "name": "b", "partition": "a", "count": 3}

    with pytest.raises(ConfigurationError, match=r"tenants\[1\].partition: 'a' is there with another count"):
        parse({**GOOD, "tenants": [*GOOD["tenants"], other]})


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (2, Constant(2)),
        ({"distribution": "constant", "value": 2}, Constant(2)),
        ({"distribution": "uniform", "low": 1, "high": 2}, Uniform(1, 2)),
        ({"distribution": "lognormal", "median": 1, "sigma": 0.5}, Lognormal(1, 0.5)),
        ({"distribution": "choice", "values": [1, 5]}, Choice((1, 5), (1.0, 1.0))),
    ],
)
def test_every_distribution_can_be_declared(declared, expected):
    assert parse(changed("tenants/0/jobs/duration", declared)).loads[0].duration == expected


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"process": "burst", "jobs": 3}, Burst(3, 0, 1_000, 1)),
        ({"process": "burst", "jobs": 3, "at": 2, "every": 60, "times": 5}, Burst(3, 2_000, 60_000, 5)),
        ({"process": "constant", "rate": 3, "start": 1, "stop": 9}, Steady(3, 1_000, 9_000)),
    ],
)
def test_every_process_can_be_declared(declared, expected):
    assert parse(changed("tenants/0/arrivals", declared)).loads[0].arrivals == expected


@pytest.mark.parametrize(
    "process", [Burst(4, 500, 1_000, 3), Poisson(5.0, 1_000, 30_000), Steady(5.0, 1_000, 30_000)]
)
def test_arrivals_come_in_order_and_from_every_tenant(process):
    found = list(process.arrivals(3, Random(1)))

    instants = [at for at, _ in found]
    assert instants == sorted(instants)
    assert {tenant for _, tenant in found} == {0, 1, 2}
    if not isinstance(process, Burst):
        assert len(found) == pytest.approx(5 * 29 * 3, rel=0.1)
        assert instants[0] >= 1_000
        assert instants[-1] < 30_000


def test_a_burst_leaves_as_many_jobs_as_it_says():
    assert list(Burst(2, 500, 1_000, 2).arrivals(2, Random(1))) == [
        *[(500, 0), (500, 1), (500, 0), (500, 1)],
        *[(1_500, 0), (1_500, 1), (1_500, 0), (1_500, 1)],
    ]


@pytest.mark.parametrize(
    ("distribution", "mean"),
    [
        (Constant(3), 3),
        (Uniform(1, 5), 3),
        (Exponential(3), 3),
        (Choice((1, 9), (3, 1)), 3),
        (Lognormal(3, 0.1), 3),
    ],
)
def test_samples_have_the_mean_they_should(distribution, mean):
    rng = Random(1)

    assert sum(distribution.sample(rng) for _ in range(20_000)) / 20_000 == pytest.approx(mean, rel=0.05)


def test_tenants_are_numbered_in_the_order_of_their_names():
    load = parse(changed("tenants/0/count", 11)).loads[0]

    assert load.groups()[:2] == [Group("default", "a-00"), Group("default", "a-01")]
    assert load.groups() == sorted(load.groups())
