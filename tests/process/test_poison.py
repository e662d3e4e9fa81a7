"""Content that kills every worker that runs it: three workers are lost, then the rest of it is never run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headgate_django import enqueue_many
from headgate_django.control.release import release
from headgate_django.core.states import State
from headgate_django.exceptions import Quarantined
from headgate_django.models import Job, Quarantine, Suspect
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import Process, terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

KIND = "sample:poison"
LEASE = ("--lease", "1")


def poisonous(**columns: Any) -> Any:
    return Job.objects.filter(kind=KIND, **columns)


def runs() -> list[str]:
    """Ids of the poisonous jobs that were started, in order."""
    return list(Run.objects.filter(name=KIND).order_by("pk").values_list("job_id", flat=True))


def is_dead(process: Process) -> bool:
    return process.popen.poll() is not None


def lose_workers_until_quarantined(*options: str) -> int:
    """Serve with one worker at a time, the next when the fleet has missed the one before; how many were lost."""
    lost = 0
    while poisonous().exclude(state=State.QUARANTINED).exists():
        with worker(*options, *LEASE) as victim:
            wait_until(
                lambda: is_dead(victim) or not poisonous().exclude(state=State.QUARANTINED).exists(),
                "lost, or everything is quarantined",
            )
            if not is_dead(victim):
                return lost
            assert victim.wait() == 17, victim.output
        lost += 1
        wait_until(lambda: not poisonous(state=State.RUNNING).exists(), "its leases were taken back")
    return lost


@pytest.fixture
def witness(db: None) -> Iterator[None]:
    """Somebody else in the fleet, who takes back what the dead have held."""
    with worker("--queues", "elsewhere", *LEASE) as process:
        yield
        assert terminate(process) == 0


@pytest.mark.parametrize("threads", ["1", "4"])
def test_five_jobs_of_one_content_kill_three_workers_and_healthy_jobs_complete(witness, threads):
    poison = enqueue_many([jobs.poison.envelope() for _ in range(5)])
    healthy = enqueue_many([jobs.ok.using(queue="poison").envelope(number) for number in range(20)])

    lost = lose_workers_until_quarantined("--queues", "poison", "--threads", threads)
    with worker("--queues", "poison", *LEASE) as survivor:
        done = Job.objects.filter(pk__in=[job.pk for job in healthy], state=State.COMPLETED)
        wait_until(lambda: done.count() == 20, "healthy jobs completed")
        assert terminate(survivor) == 0

    assert lost == 3
    assert poisonous(state=State.QUARANTINED).count() == 5
    assert Quarantine.objects.get().crash_count == 3
    with pytest.raises(Quarantined):
        jobs.poison.enqueue()
    if threads == "1":
        assert len(runs()) == 3
        assert poisonous(fence=0).count() == 2  # never run
    assert {job.fingerprint for job in poison} == {Quarantine.objects.get().fingerprint}


def test_a_canary_that_crashes_costs_one_worker_and_one_that_succeeds_brings_the_others_back(witness):
    poison = enqueue_many([jobs.poison.envelope() for _ in range(5)])
    fingerprint = poison[0].fingerprint
    lose_workers_until_quarantined("--queues", "poison", "--threads", "1")
    killers = len(runs())

    assert release([fingerprint], actor=None, canary=True).freed == 1
    with worker("--queues", "poison", "--threads", "4", *LEASE) as victim:
        assert victim.wait() == 17, victim.output
    wait_until(lambda: poisonous(state=State.QUARANTINED).count() == 5, "back in quarantine")
    assert len(runs()) == killers + 1
    assert Quarantine.objects.get().canary_job_id == ""

    Run.objects.create(name=jobs.ANTIDOTE)
    assert release([fingerprint], actor=None, canary=True).freed == 1
    with worker("--queues", "poison", "--threads", "4", *LEASE) as healed:
        wait_until(lambda: poisonous(state=State.COMPLETED).count() == 5, "all completed")
        assert terminate(healed) == 0

    assert len(runs()) == killers + 1 + 5
    assert not Quarantine.objects.exists()
    assert not Suspect.objects.exists()
    assert jobs.poison.enqueue().state == State.AVAILABLE
