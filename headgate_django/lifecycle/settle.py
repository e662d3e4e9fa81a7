"""Write the end of runs: the one fenced statement behind ack, interrupt and reclaim.

Every row is filtered on state, lease id and fence, so a claim that has lost its lease writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate_django.conf import config
from headgate_django.core.outcomes import Claim, Failure, Settlement
from headgate_django.core.states import TERMINAL, Event, State
from headgate_django.lifecycle import fence, quarantine
from headgate_django.lifecycle.fence import Held
from headgate_django.models import clock
from headgate_django.models.attempt import Attempt
from headgate_django.models.job import announce, delete_jobs
from headgate_django.models.store import (
    fetch,
    is_postgres,
    literals,
    rows_per_statement,
    rowset,
    write_transaction,
)

SILENT = frozenset({Event.SUCCEED, Event.SNOOZE, Event.RATE_LIMIT, Event.REVOKE})
"""Events that leave no Attempt row unless HEADGATE["KEEP_ATTEMPTS"] is "all"."""

MAX_ATTEMPT_ROWS = 50
"""Attempt rows kept for one job: the first and the newest."""

Pair = tuple[Claim, Settlement]

_COLUMNS = {
    **fence.COLUMNS,
    "state": "text",
    "attempt": "int",
    "crash_attempt": "int",
    "interruptions": "int",
    "delay_ms": "bigint",
    "error_class": "text",
    "error_summary": "text",
    "error_group": "text",
}
_UPDATE = f"""
WITH {{settled}} {{locked}}
UPDATE headgate_django_job
SET state = settled.state,
    attempt = settled.attempt,
    crash_attempt = settled.crash_attempt,
    interruptions = settled.interruptions,
    scheduled_at_ms = COALESCE({{now}} + settled.delay_ms, headgate_django_job.scheduled_at_ms),
    finalized_at_ms = CASE WHEN settled.state IN ({literals(*sorted(TERMINAL))}) THEN {{now}} END,
    error_class = COALESCE(settled.error_class, headgate_django_job.error_class),
    error_summary = COALESCE(settled.error_summary, headgate_django_job.error_summary),
    error_group = COALESCE(settled.error_group, headgate_django_job.error_group),
    lease_id = '',
    lease_expires_at_ms = NULL
FROM settled
WHERE {{still_held}}
RETURNING headgate_django_job.id, headgate_django_job.fence
"""
_LOCK = """
WITH {settled}
SELECT headgate_django_job.id, headgate_django_job.fence, headgate_django_job.fingerprint
FROM headgate_django_job, settled
WHERE {still_held}
ORDER BY headgate_django_job.id
{lock}
"""


def write(pairs: Sequence[Pair], *, using: str) -> set[Held]:
    """Write down how runs end; (id, fence) of the claims that still held.

    The others are untouched: they belong to somebody else by now. Of one claim given twice, the first counts.
    Inside the caller's transaction, unless ``is_one_statement``.
    """
    unique = {claim.run_id: (claim, to) for claim, to in reversed(pairs)}
    pairs = [unique[key] for key in sorted(unique)]  # by id, as all who lock several jobs do
    kept = [pair for pair in pairs if pair[1].state is not State.DELETED]
    gone = [pair for pair in pairs if pair[1].state is State.DELETED]
    step = rows_per_statement(using, len(_COLUMNS))
    held: set[Held] = set()
    if kept and gone:
        lock([claim for claim, _ in pairs], using)  # together: one after the other they were out of order
    for start in range(0, len(kept), step):
        held |= _update(kept[start : start + step], using)
    for start in range(0, len(gone), step):
        held |= _delete(gone[start : start + step], using)
    if cleared := [claim for claim, to in pairs if quarantine.clears(claim, to) and claim.run_id in held]:
        quarantine.clear(cleared, using)
    _keep_attempts([pair for pair in kept if pair[0].run_id in held], using)
    _announce([pair for pair in pairs if pair[0].run_id in held], using)
    return held


def lock(claims: Sequence[Claim], using: str) -> dict[Held, str]:
    """Lock the jobs of the claims that still hold; (id, fence) to the job's fingerprint."""
    return _still_held(claims, "FOR UPDATE OF headgate_django_job" if is_postgres(using) else "", using)


def locked_by_others(claims: Sequence[Claim], using: str) -> set[Held]:
    """Those that still hold, and whose rows another transaction has locked at this moment; none on SQLite."""
    if not is_postgres(using):
        return set()
    with write_transaction(using):
        free = _still_held(claims, "FOR UPDATE OF headgate_django_job SKIP LOCKED", using)
        return _still_held(claims, "", using).keys() - free.keys()


def _still_held(claims: Sequence[Claim], clause: str, using: str) -> dict[Held, str]:
    claims = sorted(claims, key=lambda claim: claim.id)
    step = rows_per_statement(using, len(fence.COLUMNS))
    found: dict[Held, str] = {}
    for start in range(0, len(claims), step):
        part = [fence.key(claim) for claim in claims[start : start + step]]
        settled, params = rowset(using, "settled", fence.COLUMNS, part)
        sql = _LOCK.format(settled=settled, still_held=fence.still_held("settled", using), lock=clause)
        found.update({(job_id, number): fingerprint for job_id, number, fingerprint in fetch(using, sql, params)})
    return found


def is_one_statement(pairs: Sequence[Pair], using: str) -> bool:
    """Whether a single UPDATE of the jobs' own rows is all that is written: it needs no transaction around it."""
    if len(pairs) > rows_per_statement(using, len(_COLUMNS)):
        return False
    return not any(
        to.state is State.DELETED or _leaves_attempt(to) or quarantine.clears(claim, to) for claim, to in pairs
    )


def _update(pairs: Sequence[Pair], using: str) -> set[Held]:
    rows = [(*fence.key(claim), *_state_columns(to), *_error_columns(to)) for claim, to in pairs]
    settled, params = rowset(using, "settled", _COLUMNS, rows)
    locked, still_held = fence.updating("settled", using)
    sql = _UPDATE.format(settled=settled, locked=locked, still_held=still_held, now=clock.now_sql(using))
    return set(fetch(using, sql, params))


def _state_columns(to: Settlement) -> tuple[str, int, int, int, int | None]:
    return to.state.value, to.attempt, to.crash_attempt, to.interruptions, to.delay_ms


def _error_columns(to: Settlement) -> tuple[str | None, str | None, str | None]:
    if to.failure is not None:
        summary = to.failure.message.strip().split("\n", 1)[0]
        return to.failure.error_class[:255], summary[:512], to.failure.group
    return ("", "", "") if to.event is Event.SUCCEED else (None, None, None)


def _delete(pairs: Sequence[Pair], using: str) -> set[Held]:
    held = set(lock([claim for claim, _ in pairs], using))
    if held:
        delete_jobs(using, sorted(job_id for job_id, _ in held))
    return held


def _leaves_attempt(to: Settlement) -> bool:
    keep = config().keep_attempts
    return keep == "all" or (keep == "failures" and to.event not in SILENT)


def _keep_attempts(pairs: Sequence[Pair], using: str) -> None:
    chosen = [(claim, to) for claim, to in pairs if _leaves_attempt(to)]
    if not chosen:
        return
    now_ms = clock.now_ms(using)
    Attempt.objects.using(using).bulk_create([_attempt(claim, to, now_ms) for claim, to in chosen])
    for claim, _ in chosen:
        if claim.fence > MAX_ATTEMPT_ROWS:
            _trim(claim.id, using)


def _attempt(claim: Claim, to: Settlement, now_ms: int) -> Attempt:
    failure = to.failure or Failure()
    return Attempt(
        job_id=claim.id,
        number=claim.fence,
        worker_id=claim.worker_id,
        started_at_ms=claim.started_at_ms,
        finished_at_ms=now_ms,
        outcome=to.event.value,
        error_class=failure.error_class[:255],
        message=failure.message,
        traceback=failure.traceback,
        logs=to.logs,
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
