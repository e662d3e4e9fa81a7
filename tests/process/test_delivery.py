"""Real workers on the test's database: each committed job runs, once."""

from __future__ import annotations

from collections import Counter

import pytest
from django.db import transaction

from headgate_django import enqueue_many
from headgate_django.core.states import State
from headgate_django.models import Attempt, Job, RateClass
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.backlog import Backlog, load
from tests.support.processes import terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]


class RolledBack(Exception):
    """Makes a transaction fail."""


def enqueue_block(name: str, *, fail: bool) -> None:
    try:
        with transaction.atomic():
            enqueue_many([jobs.recorded.using(queue=f"q{n % 3}").envelope(f"{name}-{n}") for n in range(50)])
            if fail:
                raise RolledBack
    except RolledBack:
        pass


def test_of_a_thousand_jobs_the_committed_half_runs_each_once_under_two_workers():
    with worker("--threads", "4") as first, worker("--threads", "4") as second:
        for block in range(20):
            enqueue_block(f"block{block}", fail=block % 2 == 1)
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() == 500, "500 jobs completed")
        assert terminate(first) == 0, first.output
        assert terminate(second) == 0, second.output

    runs = Counter(Run.objects.values_list("name", flat=True))
    assert Job.objects.count() == 500
    assert len(runs) == 500
    assert set(runs.values()) == {1}
    assert {int(name.partition("-")[0].removeprefix("block")) % 2 for name in runs} == {0}


def test_burst_runs_what_may_run_now_and_exits():
    enqueue_many([jobs.recorded.envelope(f"now-{n}") for n in range(30)])
    later = jobs.recorded.using(delay=3600).enqueue("later")

    with worker("--burst", ready=False) as process:
        assert process.wait() == 0, process.output

    later.refresh_from_db()
    assert Run.objects.count() == 30
    assert later.state == State.SCHEDULED


def test_burst_reaches_what_may_run_behind_thousands_of_streams_that_may_not():
    RateClass.objects.create(name="closed", paused=True)
    load(Backlog(count=3_500, partitions=3_500, partition="p", rate_class="closed", payloads=False))
    open_one = jobs.recorded.using(partition_key="z").enqueue("open")

    with worker("--burst", ready=False) as process:
        assert process.wait() == 0, process.output

    open_one.refresh_from_db()
    assert open_one.state == State.COMPLETED


def test_every_way_a_run_can_end_is_recorded_by_a_real_worker():
    made = {
        "ok": (jobs.ok.enqueue("x"), State.COMPLETED),
        "fails": (jobs.fails.using(max_attempts=1).enqueue(), State.ARCHIVED),
        "retries": (jobs.retries.enqueue(60), State.RETRYABLE),
        "skips": (jobs.skips.enqueue(), State.ARCHIVED),
        "snoozes": (jobs.snoozes.enqueue(), State.SCHEDULED),
        "rate_limited": (jobs.rate_limited.enqueue(), State.SCHEDULED),
        "undecodable": (jobs.undecodable.enqueue(), State.UNDECODABLE),
        "asynchronous": (jobs.asynchronous.enqueue(), State.COMPLETED),
        "no_retention": (jobs.ok.using(retention=0).enqueue(), None),
        "revokes": (jobs.revokes.enqueue(), None),
    }

    with worker("--burst", ready=False) as process:
        assert process.wait() == 0, process.output

    ended = {
        name: Job.objects.filter(pk=job.pk).values_list("state", flat=True).first()
        for name, (job, _) in made.items()
    }
    assert ended == {name: state for name, (_, state) in made.items()}


def test_an_unknown_kind_is_snoozed_and_visible_never_lost():
    job = jobs.ok.enqueue()
    Job.objects.filter(pk=job.pk).update(kind="sample:from_another_service")

    with worker("--burst", ready=False) as process:
        assert process.wait() == 0, process.output

    job.refresh_from_db()
    assert (job.state, job.attempt, job.error_class) == (State.SCHEDULED, 0, "NoHandler")
    assert "sample:from_another_service" in job.error_summary
    assert Attempt.objects.count() == 0
