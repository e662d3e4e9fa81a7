"""Content that kills every process that runs it: one shared process is lost, then the rest of it is never run."""

from __future__ import annotations

from typing import Any

import pytest

from headgate_django import enqueue_many
from headgate_django.control.release import release
from headgate_django.core.states import State
from headgate_django.exceptions import Quarantined
from headgate_django.models import Job, Quarantine, Suspect
from tests.sample import jobs
from tests.sample.models import Run
from tests.support.processes import terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

KIND = "sample:poison"
SERVE = ("--queues", "poison", "--lease", "300")


def poisonous(**columns: Any) -> Any:
    return Job.objects.filter(kind=KIND, **columns)


def runs() -> list[str]:
    """Ids of the poisonous jobs that were started, in order."""
    return list(Run.objects.filter(name=KIND).order_by("pk").values_list("job_id", flat=True))


def serve_until_quarantined(threads: str) -> int:
    """Serve until all of it is quarantined; how many shared processes were lost."""
    with worker(*SERVE, "--threads", threads) as process:
        wait_until(lambda: not poisonous().exclude(state=State.QUARANTINED).exists(), "everything is quarantined")
        assert terminate(process) == 0, process.output
    return process.output.count(") died: ")


@pytest.mark.parametrize("threads", ["1", "4"])
def test_five_jobs_of_one_content_kill_one_shared_process_and_healthy_jobs_complete(threads):
    poison = enqueue_many([jobs.poison.envelope() for _ in range(5)])
    healthy = enqueue_many([jobs.ok.using(queue="poison").envelope(number) for number in range(20)])

    lost = serve_until_quarantined(threads)
    with worker(*SERVE) as survivor:
        done = Job.objects.filter(pk__in=[job.pk for job in healthy], state=State.COMPLETED)
        wait_until(lambda: done.count() == 20, "healthy jobs completed")
        assert terminate(survivor) == 0

    assert lost == 1
    assert poisonous(state=State.QUARANTINED).count() == 5
    assert Quarantine.objects.get().crash_count >= 3
    with pytest.raises(Quarantined):
        jobs.poison.enqueue()
    if threads == "1":
        assert len(runs()) == 3
        assert poisonous(fence=0).count() == 2  # never run
    assert {job.fingerprint for job in poison} == {Quarantine.objects.get().fingerprint}


def test_a_canary_that_crashes_harms_nobody_and_one_that_succeeds_brings_the_others_back():
    poison = enqueue_many([jobs.poison.envelope() for _ in range(5)])
    fingerprint = poison[0].fingerprint
    serve_until_quarantined("1")
    killers = len(runs())

    assert release([fingerprint], actor=None, canary=True).freed == 1
    assert serve_until_quarantined("4") == 0
    assert len(runs()) == killers + 1
    assert Quarantine.objects.get().canary_job_id == ""

    Run.objects.create(name=jobs.ANTIDOTE)
    assert release([fingerprint], actor=None, canary=True).freed == 1
    with worker(*SERVE, "--threads", "4") as healed:
        wait_until(lambda: poisonous(state=State.COMPLETED).count() == 5, "all completed")
        assert terminate(healed) == 0

    assert len(runs()) == killers + 1 + 5
    assert not Quarantine.objects.exists()
    assert not Suspect.objects.exists()
    assert jobs.poison.enqueue().state == State.AVAILABLE
