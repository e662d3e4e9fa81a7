"""Content that crashes workers: runs whose worker vanishes, and siblings that wait."""

from __future__ import annotations

from typing import Any

from headgate_django.core.outcomes import Claim
from headgate_django.core.states import Event, State
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.reclaim import reclaim
from headgate_django.models import Job, Quarantine
from tests.support.builders import queued

LEASE = 30_000
QUEUE = "builders"


def sibling(**options: Any) -> Job:
    """A waiting job of the one poisonous content."""
    return queued(queue=QUEUE, arguments={"value": "poison"}, **options)


def admit_one(worker_id: str) -> Claim:
    """The only job that this worker is given."""
    [claim] = Gate(worker_id, queues={QUEUE: 1}, lease_ms=LEASE).admit(1)
    return claim


def crash(now: Any, job: Job, worker_id: str) -> None:
    """One run of this job, the only one that may run, whose worker vanishes."""
    now.advance(minutes=10)
    claim = admit_one(worker_id)
    assert claim.id == job.pk
    now.advance(milliseconds=LEASE)
    assert reclaim() == 1


def in_quarantine(now: Any, count: int = 3, **options: Any) -> list[Job]:
    """``count`` quarantined jobs of one content, the oldest first, each enqueued a second after the one before."""
    jobs = []
    for _ in range(count):
        now.advance(seconds=1)
        jobs.append(sibling(**options))
    Quarantine.objects.create(
        fingerprint=jobs[0].fingerprint, kind=jobs[0].kind, reason="test", crash_count=3, created_at_ms=now.at_ms
    )
    assert Job.objects.filter(queue=QUEUE).transition(Event.QUARANTINE, now_ms=now.at_ms) == count
    Quarantine.objects.update(is_swept=True)
    return jobs


def state(job: Job) -> str:
    """Where the job stands now; ``deleted`` if its row is gone."""
    return Job.objects.filter(pk=job.pk).values_list("state", flat=True).first() or State.DELETED
