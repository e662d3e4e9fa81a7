"""Quarantine sweep: takes out the waiting siblings of poison pills, and follows up what became of canaries."""

from __future__ import annotations

from django.db.models import Q

from headgate_django.core.states import TERMINAL, WAITING, Event, State
from headgate_django.lifecycle.quarantine import forget_suspects
from headgate_django.lifecycle.release import follow_canary
from headgate_django.models import clock
from headgate_django.models.job import Job
from headgate_django.models.quarantine import Quarantine
from headgate_django.models.store import (
    begin_pinned,
    fetch,
    literals,
    marks,
    retrying_locked,
    skip_locked,
    write_transaction,
)

WINDOW = 5_000
"""Jobs of any content that one transaction looks at."""
WINDOWS = 20
"""Windows in one call, while they hold few siblings."""
GROUP = 200
"""Contents that one walk looks for at the same time."""
FORGET_MS = 7 * 24 * 3600 * 1000
"""A suspect that has crashed nothing for so long, and never succeeded, is forgotten."""


def sweep_quarantine(limit: int, using: str) -> int:
    """One bounded pass over everything that quarantined content leaves to do; jobs moved and canaries closed."""
    unfinished = Q(is_lifted=True) | Q(is_swept=False) | ~Q(canary_job_id="")
    if not Quarantine.objects.using(using).filter(unfinished).exists():
        return 0
    closed = retrying_locked(using, lambda: close_canaries(limit, using))
    freed = retrying_locked(using, lambda: follow_canary(limit=limit, using=using))
    moved = 0
    for _ in range(WINDOWS):
        if moved >= limit:
            break
        found = retrying_locked(using, lambda left=limit - moved: sweep_siblings(left, using))  # type: ignore[misc]
        if found is None:
            break
        moved += found
    return closed + freed + moved


def forget_old_suspects(limit: int, using: str) -> int:
    """Forget content that has crashed nothing for 7 days; how many."""
    before_ms = clock.now_ms(using) - FORGET_MS
    return forget_suspects(before_ms=before_ms, limit=limit, using=using)


def sweep_siblings(limit: int, using: str) -> int | None:
    """One window of the walk over all jobs, by id: those that wait and are poison go to quarantine.

    How many, at most ``limit``; None when no content is left to look for. The walk that has come furthest goes on
    first, and takes along all contents that stand where it stands: so each job is read once for many contents,
    and new ones never hold up old ones. Rows that others have locked are passed over: the gate catches those jobs.
    """
    with write_transaction(using):
        now_ms = begin_pinned(using)
        pending = Quarantine.objects.using(using).in_force().filter(is_swept=False)
        furthest = pending.order_by("-swept_to").values_list("swept_to", flat=True).first()
        if furthest is None:
            return None
        locked = pending.filter(swept_to=furthest).order_by("fingerprint").select_for_update(skip_locked=True)
        canaries = dict(locked.values_list("fingerprint", "canary_job_id")[:GROUP])
        if not canaries:
            return None
        found, end = _window(furthest, list(canaries), limit, using)
        siblings = [job_id for job_id, fingerprint in found if canaries[fingerprint] != job_id]
        moved = 0
        if siblings:
            jobs = Job.objects.using(using).filter(pk__in=_lock(siblings, using))
            moved = jobs.transition(Event.QUARANTINE, now_ms=now_ms)
        group = Quarantine.objects.using(using).filter(fingerprint__in=canaries)
        group.update(**({"is_swept": True} if end is None else {"swept_to": end}))
        return moved


_SEEN = f"""
WITH seen AS MATERIALIZED (
    SELECT id, fingerprint, state FROM headgate_django_job WHERE id > %s ORDER BY id LIMIT %s
)
SELECT id, fingerprint FROM (
    SELECT id, fingerprint FROM seen
    WHERE state IN ({literals(*sorted(WAITING))}) AND fingerprint IN ({{fingerprints}})
    ORDER BY id LIMIT %s
) poison
UNION ALL
SELECT max(id), NULL FROM seen HAVING count(*) = %s
"""


def _window(
    after: str, fingerprints: list[str], limit: int, using: str
) -> tuple[list[tuple[str, str]], str | None]:
    """The waiting siblings behind ``after``, as (id, fingerprint), and the end of the window if more follows."""
    sql = _SEEN.format(fingerprints=marks(len(fingerprints)))
    rows = fetch(using, sql, [after, WINDOW, *fingerprints, limit, WINDOW])
    found = [(job_id, fingerprint) for job_id, fingerprint in rows if fingerprint is not None]
    end = next((job_id for job_id, fingerprint in rows if fingerprint is None), None)
    # When there are more than may be moved now, the next window begins in the middle of this one.
    return found, found[-1][0] if len(found) >= limit else end


def _lock(ids: list[str], using: str) -> list[str]:
    rows = fetch(
        using,
        f"SELECT id FROM headgate_django_job WHERE id IN ({marks(len(ids))}) ORDER BY id {skip_locked(using)}",
        ids,
    )
    return [job_id for (job_id,) in rows]


def close_canaries(limit: int, using: str) -> int:
    """Canaries that ended without a crash and without success are none any more; how many.

    Their content stays in quarantine, and its ``reason`` says how the canary ended.
    """
    with write_transaction(using):
        ended = fetch(using, _ENDED, [limit])
        sent = Quarantine.objects.using(using).in_force().filter(fingerprint__in=[row[0] for row in ended])
        rows = list(sent.exclude(canary_job_id="").order_by("fingerprint").select_for_update(skip_locked=True))
        jobs = Job.objects.using(using).filter(pk__in=[row.canary_job_id for row in rows])
        states = dict(jobs.values_list("pk", "state"))
        for row in rows:
            _close(row, State(states.get(row.canary_job_id, State.DELETED)))
            row.save(using=using, update_fields=["canary_job_id", "reason", "sample_job_id", "is_lifted"])
        return len(rows)


_ENDED = f"""
SELECT poison.fingerprint
FROM headgate_django_quarantine poison
LEFT JOIN headgate_django_job job ON job.id = poison.canary_job_id
WHERE poison.canary_job_id <> '' AND NOT poison.is_lifted
  AND (job.id IS NULL OR job.state IN ({literals(*sorted(TERMINAL))}))
ORDER BY poison.fingerprint
LIMIT %s
"""


def _close(row: Quarantine, state: State) -> None:
    if state is State.COMPLETED:
        row.is_lifted = True  # acked by a claim that did not know of the suspicion
    elif state in TERMINAL or state is State.DELETED:
        if state is not State.DELETED:
            row.sample_job_id = row.canary_job_id
        row.canary_job_id, row.reason = "", f"its canary was {state}"
