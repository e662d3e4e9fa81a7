"""A worker is killed: its jobs run again, a crash is not a failure, and the dead write nothing."""

from __future__ import annotations

import pytest
from django.db.models import Sum

from headgate_django import enqueue_many
from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import Event, State
from headgate_django.exceptions import LeaseLost
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack_one
from headgate_django.lifecycle.reclaim import claim_of
from headgate_django.models import Attempt, Job, Worker
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]


def test_jobs_of_a_killed_worker_finish_on_another_and_count_as_crashed():
    enqueue_many([jobs.sleeps.envelope(1.5) for _ in range(4)])
    with worker("--threads", "4", "--lease", "2") as doomed:
        wait_until(lambda: Run.objects.count() == 4, "four handlers entered")
        doomed.kill_tree()
    stale = [claim_of(job) for job in Job.objects.filter(state=State.RUNNING)]
    assert len(stale) == 4

    with worker("--threads", "4", "--lease", "2") as heir:
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() == 4, "all completed")
        assert terminate(heir) == 0

    totals = Job.objects.aggregate(Sum("attempt"), Sum("crash_attempt"), Sum("interruptions"))
    assert totals == {"attempt__sum": 0, "crash_attempt__sum": 4, "interruptions__sum": 0}
    assert Run.objects.count() == 8
    assert set(Attempt.objects.values_list("outcome", flat=True)) == {Event.LOSE_LEASE}
    for claim in stale:
        with pytest.raises(LeaseLost):
            ack_one(claim, Outcome(event=Event.SUCCEED))


def test_recovery_needs_no_row_of_the_dead_worker():
    jobs.sleeps.enqueue(0.0)
    Gate("gone", queues={"*": 1}, lease_ms=1_000).admit(1)
    Worker.objects.all().delete()

    with worker("--lease", "2") as heir:
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() == 1, "completed")
        assert terminate(heir) == 0


def test_a_long_job_is_renewed_and_runs_once():
    jobs.sleeps.enqueue(4.0)

    with worker("--lease", "1") as first, worker("--lease", "1") as second:
        wait_until(lambda: Job.objects.filter(state=State.COMPLETED).count() == 1, "completed")
        assert terminate(first) == 0
        assert terminate(second) == 0

    assert Run.objects.count() == 1
    assert Job.objects.get().crash_attempt == 0
