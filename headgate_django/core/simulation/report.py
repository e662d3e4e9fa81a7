"""What a simulation found, in numbers that can be written as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate_django.core.simulation.loop import Simulation
from headgate_django.core.simulation.observer import Observer
from headgate_django.core.simulation.scenario import Scenario

PERCENTILES = (50, 95, 99)

Report = dict[str, Any]


def simulate(scenario: Scenario) -> Report:
    """Run it. Times are seconds, shares are fractions of 1."""
    found = Simulation(scenario).run()
    end_ms = found.end_ms
    loads = found.loads
    busy_ms = sum(load.busy_ms for load in loads)
    completed = sum(load.completed for load in loads)
    return {
        "title": scenario.title,
        "seed": scenario.seed,
        "seconds": end_ms / 1000,
        "slots": scenario.slots,
        "jobs": sum(load.arrived for load in loads),
        "completed": completed,
        "left": sum(load.arrived - load.refused - load.completed - load.removed.total() for load in loads),
        "utilisation": _part(busy_ms, scenario.slots * end_ms),
        "throughput": _part(completed * 1000, end_ms),
        "tenants": [_load(number, found) for number in range(len(loads))],
        "queues": [
            {
                "name": name,
                "started": measure.started,
                "share": _part(measure.started, sum(one.started for one in found.queues.values())),
                "entitled": _part(measure.entitled, sum(one.started for one in found.queues.values())),
            }
            for name, measure in sorted(found.queues.items())
        ],
        "budgets": _budgets(found),
        "ceilings": _ceilings(scenario, found),
    }


def _part(some: float, all_of_it: float) -> float:
    return round(some / all_of_it, 4) if all_of_it else 0.0


def _load(number: int, found: Observer) -> Report:
    load, measure = found.scenario.loads[number], found.loads[number]
    shares = found.fairness.shares(found.tenants_of[number])
    return {
        "name": load.name,
        "count": load.tenants,
        "arrived": measure.arrived,
        "refused": measure.refused,
        "started": measure.started,
        "completed": measure.completed,
        "removed": dict(sorted(measure.removed.items())),
        "finished": measure.finished_at_ms / 1000,
        "wait": _waits(measure.waits),
        "share": round(shares[0], 4) if shares else None,
        "entitled": round(shares[1], 4) if shares else None,
    }


def _waits(waits: Sequence[int]) -> Report:
    found = sorted(waits)
    if not found:
        return {}
    named = {f"p{percent}": found[(len(found) * percent - 1) // 100] / 1000 for percent in PERCENTILES}
    return {**named, "max": found[-1] / 1000}


def _budgets(found: Observer) -> list[Report]:
    return [
        {
            "rate_class": name,
            "budget": str(meter.budget),
            "most": meter.most,
            "bound": meter.bound,
            "held": meter.held,
        }
        for name, meters in sorted(found.meters.items())
        for meter in meters
    ]


def _ceilings(scenario: Scenario, found: Observer) -> list[Report]:
    return [
        {
            "name": ceiling.name,
            "most": (most := max((n for seat, n in found.peaks.items() if seat.limit == ceiling.name), default=0)),
            "ceiling": ceiling.max_concurrent,
            "held": most <= ceiling.max_concurrent,
        }
        for ceiling in scenario.ceilings
    ]
