"""Why is this job not running? The gate's own steps, read-only; the first that says no is the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headgate_django.core.outcomes import NO_HANDLER
from headgate_django.core.states import TERMINAL, State
from headgate_django.gate.position import MAX_POSITION, position_of
from headgate_django.gate.waiting import hindrance
from headgate_django.models import clock
from headgate_django.models.fleet import Worker
from headgate_django.models.job import Job
from headgate_django.models.quarantine import Quarantine
from headgate_django.models.queue import Partition, Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """``admissible``: the next admit with room may take it. Otherwise ``blocked_by`` names the step."""

    admissible: bool
    blocked_by: str = ""
    detail: str = ""
    eta_ms: int | None = None
    position: int | None = None


def explain(job: Job) -> Explanation:
    """The first step of the gate that says no to this job; its place in its partition when none does."""
    using = job._state.db or Job.objects.db
    job = Job.objects.using(using).get(pk=job.pk)
    now_ms = clock.now_ms(using)
    for step in _STEPS:
        refusal = next(step(job, now_ms, using), None)
        if refusal is not None:
            return refusal
    position = position_of(job, using)
    shown = f"{MAX_POSITION}+" if position > MAX_POSITION else str(position)
    return Explanation(admissible=True, detail=f"number {shown} of its partition", position=position)


def _state(job: Job, now_ms: int, using: str) -> Iterator[Explanation]:
    state = State(job.state)
    if state in TERMINAL:
        yield Explanation(admissible=False, blocked_by="finished", detail=f"the job is {state}")
    elif state is State.RUNNING:
        yield Explanation(admissible=False, blocked_by="running", detail=f"runs on {job.worker_id}", eta_ms=0)
    elif state is State.PENDING:
        yield Explanation(admissible=False, blocked_by="pending", detail="waits until somebody promotes it")
    elif state in (State.SCHEDULED, State.RETRYABLE) and job.scheduled_at_ms > now_ms:
        wait = job.scheduled_at_ms - now_ms
        detail = f"due in {wait / 1000:.1f} s"
        if job.error_class == NO_HANDLER:
            yield Explanation(
                admissible=False, blocked_by="no handler", detail=f"{job.error_summary}; {detail}", eta_ms=wait
            )
        yield Explanation(admissible=False, blocked_by="schedule", detail=detail, eta_ms=wait)


def _paused_queue(job: Job, now_ms: int, using: str) -> Iterator[Explanation]:
    if Queue.objects.using(using).filter(name=job.queue, paused=True).exists():
        yield Explanation(admissible=False, blocked_by="paused queue", detail=f"queue {job.queue} is paused")


def _paused_partition(job: Job, now_ms: int, using: str) -> Iterator[Explanation]:
    paused = Partition.objects.using(using).filter(queue=job.queue, key=job.partition_key, paused=True)
    if paused.exists():
        yield Explanation(
            admissible=False,
            blocked_by="paused partition",
            detail=f"partition {job.partition_key!r} is paused",
        )


def _worker(job: Job, now_ms: int, using: str) -> Iterator[Explanation]:
    admitting = Worker.objects.using(using).admitting().only("id", "supervisor", "queues")
    # A job asks for a worker by its name; the processes under it have ids of their own, which come and go.
    serving = {worker.supervisor or worker.id for worker in admitting if worker.serves(job.queue)}
    if not serving:
        yield Explanation(
            admissible=False, blocked_by="no worker", detail=f"no live worker serves queue {job.queue}"
        )
    elif job.sticky_worker and job.sticky_worker not in serving:
        yield Explanation(
            admissible=False,
            blocked_by="sticky worker",
            detail=f"only {job.sticky_worker} may run it, and that worker is not alive or serves other queues",
        )


def _limits(job: Job, now_ms: int, using: str) -> Iterator[Explanation]:
    found = hindrance(job, now_ms, using)
    if found is not None:
        yield Explanation(admissible=False, blocked_by=found.blocked_by, detail=found.detail, eta_ms=found.eta_ms)


def _deadline(job: Job, now_ms: int, using: str) -> Iterator[Explanation]:
    if 0 < job.deadline_ms <= now_ms:
        yield Explanation(admissible=False, blocked_by="deadline", detail="its deadline has passed")


def _quarantine(job: Job, now_ms: int, using: str) -> Iterator[Explanation]:
    poison = Quarantine.objects.using(using).in_force().filter(fingerprint=job.fingerprint).first()
    if poison is not None and poison.canary_job_id != job.pk:
        detail = "its content has crashed workers"
        if poison.canary_job_id:
            detail += f"; job {poison.canary_job_id} runs ahead to see whether it is cured"
        yield Explanation(admissible=False, blocked_by="quarantine", detail=detail)


# In the order of the gate: no stream, no draw, no screening.
_STEPS: tuple[Callable[[Job, int, str], Iterator[Explanation]], ...] = (
    _state,
    _paused_queue,
    _worker,
    _paused_partition,
    _quarantine,
    _deadline,
    _limits,
)
