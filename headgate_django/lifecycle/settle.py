"""Write the end of runs: the one fenced statement behind ack, interrupt and reclaim.

Every row is filtered on state, lease id and fence, so a claim that has lost its lease writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connections

from headgate_django.conf import config
from headgate_django.core.outcomes import Claim, Settlement
from headgate_django.core.states import Event, State
from headgate_django.models.attempt import Attempt
from headgate_django.models.job import announce, delete_jobs
from headgate_django.models.store import fetch, marks

SILENT = frozenset({Event.SUCCEED, Event.SNOOZE, Event.RATE_LIMIT, Event.REVOKE})
"""Events that leave no Attempt row unless HEADGATE["KEEP_ATTEMPTS"] is "all"."""

MAX_ATTEMPT_ROWS = 50
"""Attempt rows kept for one job: the first and the newest."""

Pair = tuple[Claim, Settlement]
Held = tuple[str, int]
"""Id and fence: one run. Not the id alone, because one worker may hold an old and a new claim of the same job."""

_WIDTH = 12
_SETTLED = """
WITH settled (
    id, lease_id, fence, state, attempt, crash_attempt, interruptions, scheduled_at_ms, finalized_at_ms,
    error_class, error_summary, error_group
) AS (VALUES {values})
"""
_UPDATE = (
    _SETTLED
    + f"""
UPDATE headgate_django_job
SET state = settled.state,
    attempt = settled.attempt,
    crash_attempt = settled.crash_attempt,
    interruptions = settled.interruptions,
    scheduled_at_ms = settled.scheduled_at_ms,
    finalized_at_ms = CAST(settled.finalized_at_ms AS bigint),
    error_class = COALESCE(settled.error_class, headgate_django_job.error_class),
    error_summary = COALESCE(settled.error_summary, headgate_django_job.error_summary),
    error_group = COALESCE(settled.error_group, headgate_django_job.error_group),
    lease_id = '',
    lease_expires_at_ms = NULL
FROM settled
WHERE headgate_django_job.id = settled.id
  AND headgate_django_job.state = '{State.RUNNING}'
  AND headgate_django_job.lease_id = settled.lease_id
  AND headgate_django_job.fence = settled.fence
RETURNING headgate_django_job.id, headgate_django_job.fence
"""
)


def write(pairs: Sequence[Pair], *, now_ms: int, using: str) -> set[Held]:
    """Write down how runs end, inside the caller's transaction; (id, fence) of the claims that still held.

    The others are untouched: they belong to somebody else by now. Of one claim given twice, the first counts.
    """
    unique = {(claim.id, claim.fence): (claim, to) for claim, to in reversed(pairs)}
    pairs = [unique[key] for key in sorted(unique)]  # by id, as all who lock several jobs do
    kept = [pair for pair in pairs if pair[1].state is not State.DELETED]
    gone = [pair for pair in pairs if pair[1].state is State.DELETED]
    step = max(1, (connections[using].features.max_query_params or 12_000) // _WIDTH)
    held: set[Held] = set()
    for start in range(0, len(kept), step):
        held |= _update(kept[start : start + step], using)
    for start in range(0, len(gone), step):
        held |= _delete(gone[start : start + step], using)
    _keep_attempts([pair for pair in kept if (pair[0].id, pair[0].fence) in held], now_ms, using)
    _announce([pair for pair in pairs if (pair[0].id, pair[0].fence) in held], using)
    return held


def _update(pairs: Sequence[Pair], using: str) -> set[Held]:
    params: list[Any] = []
    for claim, to in pairs:
        params += [claim.id, claim.lease_id, claim.fence, to.state.value, to.attempt, to.crash_attempt]
        params += [to.interruptions, to.scheduled_at_ms, to.finalized_at_ms, *_error_columns(to)]
    sql = _UPDATE.format(values=marks(len(pairs), _WIDTH))
    return {(row[0], row[1]) for row in fetch(using, sql, params)}


def _error_columns(to: Settlement) -> tuple[str | None, str | None, str | None]:
    if to.failure is not None:
        summary = to.failure.message.strip().split("\n", 1)[0]
        return to.failure.error_class[:255], summary[:512], to.failure.group
    return ("", "", "") if to.event is Event.SUCCEED else (None, None, None)


def _delete(pairs: Sequence[Pair], using: str) -> set[Held]:
    params = [value for claim, _ in pairs for value in (claim.id, claim.lease_id, claim.fence)]
    lock = "FOR UPDATE" if connections[using].features.has_select_for_update else ""
    rows = fetch(
        using,
        f"SELECT id, fence FROM headgate_django_job WHERE state = '{State.RUNNING}'"
        f" AND (id, lease_id, fence) IN (VALUES {marks(len(pairs), 3)}) ORDER BY id {lock}",
        params,
    )
    if rows:
        delete_jobs(using, [row[0] for row in rows])
    return {(row[0], row[1]) for row in rows}


def _keep_attempts(pairs: Sequence[Pair], now_ms: int, using: str) -> None:
    keep = config().keep_attempts
    chosen = [pair for pair in pairs if keep == "all" or (keep == "failures" and pair[1].event not in SILENT)]
    if not chosen:
        return
    Attempt.objects.using(using).bulk_create([_attempt(claim, to, now_ms) for claim, to in chosen])
    for claim, _ in chosen:
        if claim.fence > MAX_ATTEMPT_ROWS:
            _trim(claim.id, using)


def _attempt(claim: Claim, to: Settlement, now_ms: int) -> Attempt:
    failure = to.failure
    return Attempt(
        job_id=claim.id,
        number=claim.fence,
        worker_id=claim.worker_id,
        started_at_ms=claim.started_at_ms,
        finished_at_ms=now_ms,
        outcome=to.event.value,
        error_class=failure.error_class[:255] if failure else "",
        message=failure.message if failure else "",
        traceback=failure.traceback if failure else "",
    )


def _trim(job_id: str, using: str) -> None:
    rows = Attempt.objects.using(using).filter(job_id=job_id).order_by("number")
    numbers = list(rows.values_list("number", flat=True))
    if len(numbers) > MAX_ATTEMPT_ROWS:
        surplus = numbers[1 : 1 + len(numbers) - MAX_ATTEMPT_ROWS]
        rows.filter(number__in=surplus).delete()


def _announce(pairs: Sequence[Pair], using: str) -> None:
    moved: dict[tuple[Event, State], list[str]] = {}
    for claim, to in pairs:
        moved.setdefault((to.event, to.state), []).append(claim.id)
    for (event, state), ids in moved.items():
        announce(ids, event, state, using=using)
