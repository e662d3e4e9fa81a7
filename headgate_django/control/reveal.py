"""Reveal: one job's payload, headers and logs, to somebody with the right, on the record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models.functions import Left, Length

from headgate_django.control.authority import Actor, require
from headgate_django.control.presentation import MAX_SHOWN, Text, decoded, pretty
from headgate_django.control.record import record, recorded_transaction
from headgate_django.models.attempt import Attempt
from headgate_django.models.job import Job
from headgate_django.models.payload import Payload
from headgate_django.models.store import alias, retrying_locked

PERMISSION = "reveal_payload"
WITHOUT_LOGS = "Revealed payload and headers."
MAX_RUNS = 20
"""Runs whose logs are shown: the newest."""

Log = tuple[int, str, int]
"""Number of the run, the first part of what it logged, and how long that is in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revealed:
    """The private part of one job."""

    job: Job
    size: int
    arguments: Text
    headers: Text
    logs: Sequence[tuple[int, Text]] = ()
    """What its runs logged, by the number of the run, the newest first."""


def reveal(job_id: str, *, actor: Actor | None, using: str = "") -> Revealed:
    """Read and decode the private part of a job, and record who did.

    Raises PermissionRefused, and ``Job.DoesNotExist``.
    """
    require(actor, PERMISSION)
    using = using or alias()
    job, payload, logs = retrying_locked(using, lambda: _read(job_id, actor, using))
    data = bytes(payload.data) if payload else b""
    return Revealed(
        job=job,
        size=len(data),
        arguments=decoded(data) if payload else Text("", trouble="no payload is stored"),
        headers=pretty(payload.headers if payload else {}),
        logs=[(number, Text(shown, cut=length > MAX_SHOWN)) for number, shown, length in logs],
    )


def _read(job_id: str, actor: Actor | None, using: str) -> tuple[Job, Payload | None, list[Log]]:
    with recorded_transaction(using, actor):
        job = Job.objects.using(using).get(pk=job_id)
        logs = _logs(job_id, using)
        record(actor, [job], f"Revealed payload, headers and logs of {len(logs)} runs." if logs else WITHOUT_LOGS)
        return job, Payload.objects.using(using).filter(pk=job_id).first(), logs


def _logs(job_id: str, using: str) -> list[Log]:
    rows = Attempt.objects.using(using).filter(job_id=job_id).exclude(logs="").order_by("-number")
    cut = rows.annotate(shown=Left("logs", MAX_SHOWN), length=Length("logs"))
    return list(cut.values_list("number", "shown", "length")[:MAX_RUNS])
