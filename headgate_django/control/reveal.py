"""Reveal: one job's payload and headers, to somebody with the right, on the record."""

from __future__ import annotations

from dataclasses import dataclass

from headgate_django.control.authority import Actor, require
from headgate_django.control.presentation import Text, decoded, pretty
from headgate_django.control.record import record, recorded_transaction
from headgate_django.models.job import Job
from headgate_django.models.payload import Payload
from headgate_django.models.store import alias, retrying_locked

PERMISSION = "reveal_payload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revealed:
    """The private part of one job."""

    job: Job
    size: int
    arguments: Text
    headers: Text


def reveal(job_id: str, *, actor: Actor | None, using: str = "") -> Revealed:
    """Read and decode the private part of a job, and record who did.

    Raises PermissionRefused, and ``Job.DoesNotExist``.
    """
    require(actor, PERMISSION)
    using = using or alias()
    job, payload = retrying_locked(using, lambda: _read(job_id, actor, using))
    data = bytes(payload.data) if payload else b""
    return Revealed(
        job=job,
        size=len(data),
        arguments=decoded(data) if payload else Text("", trouble="no payload is stored"),
        headers=pretty(payload.headers if payload else {}),
    )


def _read(job_id: str, actor: Actor | None, using: str) -> tuple[Job, Payload | None]:
    with recorded_transaction(using, actor):
        job = Job.objects.using(using).get(pk=job_id)
        record(actor, [job], "Revealed payload and headers.")
        return job, Payload.objects.using(using).filter(pk=job_id).first()
