"""Limits hold over several real worker processes, also when one of them is killed."""

from __future__ import annotations

import contextlib
import random
from bisect import bisect_left

import pytest
from django.db import connection, transaction

from headgate_django import enqueue_many
from headgate_django.core.states import State
from headgate_django.models import ConcurrencyLimit, Job, RateBudget, RateClass, clock
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

LIMIT, WINDOW_MS, COUNT, WAITING = 20, 1_000, 120, 20


def row_versions() -> dict[str, int]:
    """What changes whenever a waiting row is written: the row version, or the fence where there is none."""
    version = "xmin::text::bigint" if connection.vendor == "postgresql" else "fence"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id, {version} FROM headgate_django_job WHERE state = 'available'")
        return dict(cursor.fetchall())


def busiest_window(instants: list[int], length_ms: int) -> int:
    instants = sorted(instants)
    return max(bisect_left(instants, start + length_ms) - index for index, start in enumerate(instants))


def budget(name: str, limit: int, window_ms: int) -> None:
    RateBudget.objects.create(
        rate_class=RateClass.objects.create(name=name), limit=limit, window_ms=window_ms, burst=limit
    )


def test_a_budget_holds_over_all_workers_and_the_waiting_are_not_touched(vendor):
    budget("api", LIMIT, WINDOW_MS)
    budget("hourly", 1, 3_600_000)
    with transaction.atomic():
        enqueue_many([jobs.ok.using(rate_class="api").envelope(n) for n in range(COUNT)])
        enqueue_many([jobs.ok.using(rate_class="hourly").envelope(n) for n in range(WAITING + 1)])
        earlier = row_versions()
    within = Job.objects.filter(rate_class="api")

    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(worker("--threads", "8")) for _ in range(4 if vendor == "postgresql" else 2)
        ]
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() == COUNT + 1, "all that may run")
        assert [terminate(process) for process in workers] == [0] * len(workers)

    still_waiting = row_versions()
    assert len(still_waiting) == WAITING
    assert still_waiting.items() <= earlier.items()
    ended = list(within.values_list("attempted_at_ms", "attempt", "fence"))
    assert {(attempt, fence) for _, attempt, fence in ended} == {(0, 1)}
    # Half a window, in which 30 may run: an admit that waits for the budget's row bears the time of its beginning.
    assert busiest_window([instant for instant, _, _ in ended], WINDOW_MS // 2) <= 2 * LIMIT
    assert max(instant for instant, _, _ in ended) - min(instant for instant, _, _ in ended) >= (
        (COUNT - LIMIT) * WINDOW_MS // LIMIT - WINDOW_MS // LIMIT
    )


def most_at_once(visits: list[tuple[int, int]]) -> int:
    steps = sorted([(entered, 1) for entered, _ in visits] + [(left, -1) for _, left in visits])
    inside = most = 0
    for _, step in steps:
        inside += step
        most = max(most, inside)
    return most


def test_a_ceiling_holds_over_three_processes_one_of_which_is_killed():
    ConcurrencyLimit.objects.create(name="three", scope="queue", key="q", max_concurrent=3)
    rng = random.Random(7)
    enqueue_many([jobs.visits.using(queue="q").envelope(rng.uniform(0, 0.06)) for _ in range(300)])
    most_running = 0

    def sampled_done(target: int) -> bool:
        nonlocal most_running
        most_running = max(most_running, Job.objects.filter(state=State.RUNNING).count())
        return Job.objects.filter(state=State.COMPLETED).count() >= target

    with contextlib.ExitStack() as stack:
        victim, *others = [
            stack.enter_context(worker("--threads", "8", "--lease", "3", "--poll-interval", "0.2"))
            for _ in range(3)
        ]
        wait_until(lambda: sampled_done(100), "a third is done")
        # It is killed while it has work in its hands.
        pids = victim.children()
        wait_until(lambda: Run.objects.filter(pid__in=pids, left_ms=0).exists() or sampled_done(290), "busy")
        pids += victim.cells()
        victim.kill_tree()
        killed_at_ms = clock.now_ms("default")
        wait_until(lambda: sampled_done(300), "all are done")
        assert [terminate(process) for process in others] == [0, 0]

    Run.objects.filter(pid__in=pids, left_ms=0).update(left_ms=killed_at_ms)
    visits = list(Run.objects.exclude(entered_ms=0).values_list("entered_ms", "left_ms"))
    assert most_running <= 3
    assert most_at_once(visits) <= 3
    assert len(visits) >= 300
    assert Job.objects.filter(attempt__gt=0).count() == 0
