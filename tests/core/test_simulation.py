"""The simulation: the same seed, the same run; every job has one fate; limits are measured from outside."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate_django.core.buckets import Budget
from headgate_django.core.simulation.measures import BudgetMeter, water_fill
from headgate_django.core.simulation.reading import parse
from headgate_django.core.simulation.report import Report, simulate


def burst(jobs: int, **options: Any) -> dict[str, Any]:
    return {"process": "burst", "jobs": jobs, **options}


def tenants(name: str, arrivals: dict[str, Any], **options: Any) -> dict[str, Any]:
    """``cost`` is the weight of a job, ``weight`` that of a tenant."""
    keys = {"duration": "duration", "cost": "weight", "priority": "priority", "rate_class": "rate_class"}
    jobs = {key: options.pop(option) for option, key in keys.items() if option in options}
    return {"name": name, "arrivals": arrivals, "jobs": jobs, **options}


def run(*loads: dict[str, Any], threads: int = 1, workers: int = 1, **options: Any) -> Report:
    fleet = [{"count": workers, "threads": threads, **options.pop("worker", {})}]
    return simulate(parse({"title": "test", "tenants": list(loads), "workers": fleet, **options}))


def line(report: Report, name: str) -> Report:
    return next(load for load in report["tenants"] if load["name"] == name)


BUSY = (
    tenants("a", {"process": "poisson", "rate": 20}, duration={"distribution": "exponential", "mean": 0.2}),
    tenants(
        "b",
        {"process": "poisson", "rate": 3},
        count=20,
        duration={"distribution": "lognormal", "median": 0.05, "sigma": 1},
        rate_class="api",
        cost={"distribution": "choice", "values": [1, 4], "odds": [9, 1]},
    ),
)
LIMITS = {
    "duration": 10,
    "rate_classes": {"api": ["20/second", {"limit": 2, "window": 1, "burst": 4, "per_partition": True}]},
    "concurrency_limits": {"tenant": {"queue": "default", "per_partition": True, "max_concurrent": 3}},
}


def test_one_slot_runs_one_job_after_the_other():
    report = run(tenants("a", burst(4), duration=1))

    assert line(report, "a")["wait"] == {"p50": 1.0, "p95": 3.0, "p99": 3.0, "max": 3.0}
    assert (report["seconds"], report["utilisation"], report["throughput"]) == (4.0, 1.0, 1.0)


def test_the_same_seed_gives_the_same_run_and_another_one_another():
    first, again, other = (run(*BUSY, threads=4, workers=2, seed=seed, **LIMITS) for seed in (1, 1, 2))

    assert first == again
    assert first["tenants"] != other["tenants"]


def test_another_policy_meets_the_same_jobs():
    bare = run(*BUSY, threads=4, workers=2, duration=10)
    limited = run(*BUSY, threads=4, workers=2, **LIMITS)

    def jobs(report: Report) -> list[tuple[int, int]]:
        return [(load["arrived"], load["completed"]) for load in report["tenants"]]

    def busy(report: Report) -> float:
        return report["utilisation"] * report["seconds"]

    assert jobs(bare) == jobs(limited)
    assert busy(bare) == pytest.approx(busy(limited), rel=0.001)


@pytest.mark.parametrize("stop", [0, 5])
@pytest.mark.parametrize("strategy", ["queue", "discard", "cancel_incoming", "cancel_running"])
def test_every_job_has_one_fate_and_no_limit_is_exceeded(strategy, stop):
    limits = {"all": {"queue": "default", "max_concurrent": 4, "on_saturated": strategy}}

    report = run(
        *BUSY,
        threads=4,
        workers=2,
        duration=10,
        stop=stop,
        rate_classes=LIMITS["rate_classes"],
        concurrency_limits=limits,
        queues={"default": {"max_unfinished_jobs": 50}},
    )

    fates = [load["refused"] + load["completed"] + sum(load["removed"].values()) for load in report["tenants"]]
    assert sum(fates) + report["left"] == report["jobs"]
    assert report["ceilings"] == [{"name": "all", "most": 4, "ceiling": 4, "held": True}]
    assert all(budget["held"] for budget in report["budgets"])
    assert (report["left"] > 0) <= (stop > 0)


def test_a_full_scope_takes_jobs_out_as_its_strategy_says():
    def removed(strategy: str) -> dict[str, int]:
        limit = {"queue": "default", "max_concurrent": 2, "on_saturated": strategy}
        loads = tenants("a", burst(2), duration=10), tenants("b", burst(1, at=1), duration=1)
        report = run(*loads, threads=8, concurrency_limits={"two": limit})
        return {load["name"]: load["removed"] for load in report["tenants"]}

    assert removed("queue") == {"a": {}, "b": {}}
    assert removed("discard") == {"a": {}, "b": {"discard": 1}}
    assert removed("cancel_incoming") == {"a": {}, "b": {"cancel incoming": 1}}
    assert removed("cancel_running") == {"a": {"displaced": 1}, "b": {}}


def test_a_job_above_the_burst_is_taken_out():
    report = run(tenants("a", burst(3), rate_class="api", cost=6), rate_classes={"api": "5/second"})

    assert line(report, "a")["removed"] == {"too heavy": 3}


def test_a_full_queue_refuses():
    report = run(tenants("a", burst(10), duration=1), queues={"default": {"max_unfinished_jobs": 4}})

    assert (line(report, "a")["refused"], line(report, "a")["completed"]) == (6, 4)


def test_a_queue_that_nobody_serves_does_not_keep_the_simulation_going():
    loads = tenants("a", burst(3)), tenants("b", burst(3), queue="forgotten")

    report = run(*loads, worker={"queues": {"default": 1}})

    assert (report["completed"], report["left"]) == (3, 3)


def test_a_budget_that_refills_once_a_day_is_waited_for():
    report = run(tenants("a", burst(3), rate_class="api"), rate_classes={"api": "1/day"})

    assert (report["completed"], report["left"]) == (3, 0)
    assert line(report, "a")["wait"]["max"] == pytest.approx(2 * 86_400, rel=0.001)


def test_starts_follow_the_weights_of_queues():
    loads = [tenants(name, burst(2_000), queue=name) for name in ("heavy", "light")]

    report = run(*loads, threads=4, workers=2, queues={"heavy": {"weight": 3}})

    assert {queue["name"]: queue["share"] for queue in report["queues"]} == pytest.approx(
        {"heavy": 0.75, "light": 0.25}, abs=0.01
    )
    assert [queue["entitled"] for queue in report["queues"]] == pytest.approx([0.75, 0.25], abs=0.001)


def test_slots_follow_the_weights_of_tenants():
    loads = tenants("heavy", burst(500), weight=3, duration=1), tenants("light", burst(500), duration=5)

    report = run(*loads, threads=4, workers=2, stop=60)

    assert line(report, "heavy")["share"] == pytest.approx(0.75, abs=0.02)
    assert line(report, "light")["entitled"] == pytest.approx(0.25, abs=0.01)


def test_inside_a_tenant_priority_goes_first_and_a_blocked_class_hides_nothing():
    report = run(
        tenants("late", burst(10), duration=1),
        tenants("urgent", burst(10), duration=1, priority=9, partition="late"),
        tenants("blocked", burst(1_000), duration=1, priority=99, partition="late", rate_class="api"),
        rate_classes={"api": "1/day"},
        stop=30,
    )

    assert line(report, "blocked")["started"] == 1
    assert line(report, "urgent")["wait"]["max"] < line(report, "late")["wait"]["p50"]


@settings(max_examples=100, deadline=None)
@given(slots=st.integers(0, 50), demands=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 9)), max_size=8))
def test_water_is_filled_to_one_level_and_nobody_gets_more_than_it_asks_for(slots, demands):
    shares = water_fill(slots, demands)

    assert sum(shares) == pytest.approx(min(slots, sum(demand for demand, _ in demands)))
    level = max((share / weight for share, (_, weight) in zip(shares, demands, strict=True)), default=0)
    for share, (demand, weight) in zip(shares, demands, strict=True):
        assert share == pytest.approx(min(demand, level * weight))


def meter(limit: int, burst: int, **options: bool) -> BudgetMeter:
    return BudgetMeter(Budget(id=1, limit=limit, window_ms=1_000, burst=burst, **options))


def test_a_meter_sees_what_a_wrong_bucket_would_do():
    watched = meter(5, 5)
    for at in (0, 500, 1_000):
        watched.take(at, "", 4)

    assert (watched.most, watched.bound, watched.held) == (12, 10, False)


def test_a_meter_also_sees_windows_shorter_than_the_budgets_own():
    watched = meter(5, 5)
    watched.take(0, "", 5)
    watched.take(100, "", 1)

    assert (watched.most, watched.bound, watched.held) == (6, 10, False)


def test_a_meter_counts_a_full_burst_and_the_refill_as_held():
    watched = meter(5, 5)
    watched.take(0, "", 5)
    for at in range(200, 1_001, 200):
        watched.take(at, "", 1)

    assert (watched.most, watched.held) == (10, True)


def test_a_meter_of_a_budget_per_partition_keeps_them_apart():
    watched = meter(5, 5, per_partition=True)
    for partition in "abc":
        watched.take(0, partition, 5)

    assert (watched.most, watched.held) == (5, True)
