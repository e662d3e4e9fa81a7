"""A scenario file, parsed; what is wrong with it is said by the name of the key."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from headgate_django.core import declarations
from headgate_django.core.admission import EVERY_QUEUE
from headgate_django.core.buckets import Budget
from headgate_django.core.envelope import check_key
from headgate_django.core.simulation.chance import (
    Burst,
    Choice,
    Constant,
    Distribution,
    Exponential,
    Lognormal,
    Poisson,
    Process,
    Steady,
    Uniform,
)
from headgate_django.core.simulation.scenario import Load, QueuePolicy, Scenario, Workers
from headgate_django.core.simulation.table import Table, choice
from headgate_django.core.turnstile import Ceiling, Saturated, Scope
from headgate_django.exceptions import ConfigurationError, InvalidJob

MAX_TENANTS = 1_000_000
MAX_SLOTS = 100_000
DEFAULT_DURATION = 60.0

_KEYS = [
    *("title", "description", "seed", "duration", "stop", "workers", "tenants"),
    *("queues", "rate_classes", "concurrency_limits"),
]


def parse(declared: Mapping[str, Any]) -> Scenario:
    """The scenario that a TOML file declares. Raises ConfigurationError naming the key that is wrong."""
    top = Table("", declared, _KEYS)
    duration_ms = top.seconds("duration", DEFAULT_DURATION)
    loads = tuple(_load(table, duration_ms) for table in top.tables("tenants", _LOAD))
    _check_tenants(loads)
    scenario = Scenario(
        title=top.text("title"),
        description=top.text("description", ""),
        seed=top.whole("seed", 1, minimum=-(2**63)),
        stop_ms=top.seconds("stop", 0.0, minimum_ms=0),
        workers=tuple(_workers(table) for table in top.tables("workers", ["count", "threads", "queues"])),
        loads=loads,
        queues={
            name: QueuePolicy(**policy)
            for name, policy in declarations.parse_all("queues", top.get("queues", {}), declarations.queue).items()
        },
        rate_classes=_rate_classes(top.get("rate_classes", {})),
        ceilings=_ceilings(top.get("concurrency_limits", {})),
    )
    if scenario.slots > MAX_SLOTS:
        raise ConfigurationError(f"workers have {scenario.slots} threads; at most {MAX_SLOTS} can be simulated")
    return scenario


def _workers(table: Table) -> Workers:
    queues = table.get("queues", {EVERY_QUEUE: 1})
    if not isinstance(queues, Mapping) or not queues:
        raise ConfigurationError(f"{table.path('queues')} must be a table of names and weights, not {queues!r}")
    weights = Table(table.path("queues"), queues, list(queues))
    return Workers(
        count=table.whole("count", 1),
        threads=table.whole("threads", 10),
        queues={_name(weights.path(name), name): weights.whole(name) for name in queues},
    )


_LOAD = ["name", "count", "queue", "partition", "weight", "arrivals", "jobs"]


def _load(table: Table, duration_ms: int) -> Load:
    jobs = Table(table.path("jobs"), table.get("jobs", {}), ["duration", "weight", "priority", "rate_class"])
    name = table.text("name")
    rate_class = jobs.text("rate_class", "")
    return Load(
        name=name,
        queue=_name(table.path("queue"), table.text("queue", "default")),
        partition=_name(table.path("partition"), table.text("partition", name)),
        tenants=table.whole("count", 1, maximum=MAX_TENANTS),
        partition_weight=table.whole("weight", 1),
        arrivals=_arrivals(table.path("arrivals"), table.get("arrivals"), duration_ms),
        duration=_distribution(jobs.path("duration"), jobs.get("duration", 0.1), whole=False),
        weight=_distribution(jobs.path("weight"), jobs.get("weight", 1), whole=True),
        priority=jobs.whole("priority", 0, minimum=-(2**31)),
        rate_class=_name(jobs.path("rate_class"), rate_class) if rate_class else "",
    )


def _check_tenants(loads: tuple[Load, ...]) -> None:
    names: set[str] = set()
    alike: dict[tuple[str, str], tuple[int, int]] = {}
    for number, load in enumerate(loads):
        if load.name in names:
            raise ConfigurationError(f"tenants[{number}].name: {load.name!r} is there twice")
        names.add(load.name)
        terms = (load.tenants, load.partition_weight)
        if alike.setdefault((load.queue, load.partition), terms) != terms:
            raise ConfigurationError(
                f"tenants[{number}].partition: {load.partition!r} is there with another count or weight"
            )


def _arrivals(where: str, declared: Any, duration_ms: int) -> Process:
    kind = choice(where, declared, "process", _PROCESSES)
    table = Table(where, declared, ["process", *_PROCESSES[kind]])
    if kind == "burst":
        return Burst(
            jobs=table.whole("jobs"),
            at_ms=table.seconds("at", 0.0, minimum_ms=0),
            every_ms=table.seconds("every", 1.0),
            times=table.whole("times", 1),
        )
    process = Poisson if kind == "poisson" else Steady
    return process(
        rate=table.number("rate"),
        start_ms=table.seconds("start", 0.0, minimum_ms=0),
        stop_ms=table.seconds("stop", duration_ms / 1000),
    )


_PROCESSES = {
    "burst": ["jobs", "at", "every", "times"],
    "poisson": ["rate", "start", "stop"],
    "constant": ["rate", "start", "stop"],
}


def _distribution(where: str, declared: Any, *, whole: bool) -> Distribution:
    if not isinstance(declared, Mapping):
        table = Table(where.rpartition(".")[0], {where.rpartition(".")[2]: declared}, [where.rpartition(".")[2]])
        key = where.rpartition(".")[2]
        return Constant(table.whole(key) if whole else table.number(key))
    kind = choice(where, declared, "distribution", _DISTRIBUTIONS)
    table = Table(where, declared, ["distribution", *_DISTRIBUTIONS[kind]])
    if kind == "choice":
        values = table.numbers("values")
        return Choice(values, table.numbers("odds", (1.0,) * len(values), length=len(values)))
    build = {"constant": Constant, "uniform": Uniform, "exponential": Exponential, "lognormal": Lognormal}[kind]
    found: Distribution = build(*(table.number(key) for key in _DISTRIBUTIONS[kind]))
    if isinstance(found, Uniform) and found.low > found.high:
        raise ConfigurationError(f"{table.path('low')} is above {table.path('high')}")
    return found


_DISTRIBUTIONS = {
    "constant": ["value"],
    "uniform": ["low", "high"],
    "exponential": ["mean"],
    "lognormal": ["median", "sigma"],
    "choice": ["values", "odds"],
}


def _rate_classes(declared: Any) -> dict[str, tuple[Budget, ...]]:
    parsed = declarations.parse_all("rate_classes", declared, declarations.rate_class)
    numbered, number = {}, 0
    for name, budgets in parsed.items():
        found = [Budget(id=number + place, **budget) for place, budget in enumerate(budgets)]
        numbered[name] = tuple(sorted(found, key=attrgetter("per_partition")))
        number += len(budgets)
    return numbered


def _ceilings(declared: Any) -> tuple[Ceiling, ...]:
    parsed = declarations.parse_all("concurrency_limits", declared, declarations.concurrency_limit)
    return tuple(
        Ceiling(
            name=name,
            scope=Scope(limit["scope"]),
            key=limit["key"],
            max_concurrent=limit["max_concurrent"],
            on_saturated=Saturated(limit["on_saturated"]),
        )
        for name, limit in sorted(parsed.items())
    )


def _name(where: str, value: str) -> str:
    try:
        check_key(where, value, required=True)
    except InvalidJob as error:
        raise ConfigurationError(str(error)) from error
    return value
