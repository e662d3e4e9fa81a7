"""Exact blame: a death costs one crash, and no innocent is quarantined because of a neighbour."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
from django.db.models import Sum

from headgate_django import enqueue_many
from headgate_django.core.states import State
from headgate_django.models import Job, Quarantine, Suspect, Worker
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import freeze, terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

KILLS = int(os.environ.get("HEADGATE_TEST_KILLS", "8"))
"""20 for the full measure."""


def completed() -> int:
    return Job.objects.filter(state=State.COMPLETED).count()


def kill_with_its_hands_full(pid: int) -> int:
    """Kill a worker process; how many jobs ran in it (not in processes of their own) at that moment."""
    freeze(pid)  # so that what is counted is what is lost
    worker_id = Worker.objects.filter(pid=pid).values_list("id", flat=True).first()
    running = Job.objects.filter(state=State.RUNNING, worker_id=worker_id)
    inside = running.exclude(pk__in=isolated_jobs()).count()
    os.kill(pid, signal.SIGKILL)
    return inside


def isolated_jobs() -> list[str]:
    return list(Job.objects.filter(state=State.RUNNING, crash_attempt__gt=0).values_list("pk", flat=True))


def test_random_kills_lose_nothing_quarantine_nobody_and_count_exactly_what_was_in_flight():
    rng = random.Random(20)
    count = KILLS * 100
    enqueue_many([jobs.once.envelope(f"n{n}", rng.uniform(0.005, 0.05)) for n in range(min(count, 1000))])
    if count > 1000:
        enqueue_many([jobs.once.envelope(f"n{n}", rng.uniform(0.005, 0.05)) for n in range(1000, count)])
    in_flight = kills = 0
    with worker("--processes", "2", "--threads", "4", "--lease", "300", "--poll-interval", "0.5") as process:
        while kills < KILLS:
            time.sleep(rng.uniform(0.1, 0.6))
            served = set(Worker.objects.values_list("pid", flat=True))
            alive = [pid for pid in process.children() if pid in served]
            if alive:
                in_flight += kill_with_its_hands_full(rng.choice(alive))
                kills += 1
        wait_until(lambda: completed() == count, "all completed")
        assert terminate(process) == 0, process.output

    assert not Quarantine.objects.exists()
    assert Job.objects.aggregate(Sum("crash_attempt"))["crash_attempt__sum"] == in_flight
    assert Job.objects.filter(attempt__gt=0).count() == 0
    assert in_flight > 0
    for name in Run.objects.values_list("name", flat=True).distinct():
        last = Run.objects.filter(name=name).order_by("pk").last()
        assert last.finished, name
    assert not Suspect.objects.filter(fingerprint__in=Job.objects.values("fingerprint")).exists()


def test_one_poison_job_among_many_costs_one_shared_process_and_three_crashes():
    healthy = [jobs.once.envelope(f"n{n}", 0.01) for n in range(500)]
    with worker("--processes", "2", "--threads", "8", "--lease", "300") as process:
        shared = set(process.children())
        enqueue_many(healthy[:250])
        poison = jobs.segfaults.enqueue()
        enqueue_many(healthy[250:])
        wait_until(lambda: completed() == 500, "all healthy ones completed")
        wait_until(lambda: Quarantine.objects.exists(), "quarantined")
        died = shared - set(process.children())
        assert terminate(process) == 0, process.output

    poison.refresh_from_db()
    assert (poison.state, poison.crash_attempt, poison.attempt) == (State.QUARANTINED, 3, 0)
    assert len(died) <= 1
    assert Job.objects.exclude(pk=poison.pk).filter(crash_attempt__gt=1).count() == 0
    assert Quarantine.objects.count() == 1
    assert process.output.count(") died: ") <= 1


def test_siblings_of_a_poison_job_die_at_most_three_deaths_together_and_never_run_again():
    with worker("--threads", "8", "--lease", "300") as process:
        poison = enqueue_many([jobs.poison.envelope() for _ in range(5)])
        wait_until(
            lambda: Job.objects.filter(pk__in=[job.pk for job in poison], state=State.QUARANTINED).count() == 5,
            "all are quarantined",
        )
        assert process.output.count(") died: ") == 1
        assert terminate(process) == 0
