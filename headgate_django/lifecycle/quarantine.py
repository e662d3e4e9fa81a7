"""Poison pills: the crashes of all jobs of one content count together, up to quarantine; success clears them.

Rows are locked in this order: the runs' own jobs, suspects, quarantines (each by fingerprint), and last the jobs
that wait or are quarantined, which are never waited for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from headgate_django.core.outcomes import Claim, Settlement
from headgate_django.core.states import Event, State
from headgate_django.models.forget import forget
from headgate_django.models.quarantine import Quarantine, Suspect
from headgate_django.models.store import execute, marks, rows_per_statement

AT_LIMIT = "crash limit reached"
CANARY_CRASHED = "its canary crashed"


MAX_WORKERS = 32
"""Lost workers that are remembered for one content."""

_SUSPECT = """
INSERT INTO headgate_django_suspect (fingerprint, crash_count, workers, seen_at_ms) VALUES {rows}
ON CONFLICT (fingerprint) DO UPDATE SET seen_at_ms = excluded.seen_at_ms
"""


def lock_suspects(fingerprints: Sequence[str], now_ms: int, using: str) -> dict[str, Suspect]:
    """The rows of these contents, made if there is none, and locked in the order given."""
    step = rows_per_statement(using, 4)
    for start in range(0, len(fingerprints), step):
        part = fingerprints[start : start + step]
        params = [value for fingerprint in part for value in (fingerprint, 0, "{}", now_ms)]
        execute(using, _SUSPECT.format(rows=marks(len(part), 4)), params)
    return Suspect.objects.using(using).in_bulk(fingerprints)


def count_crashes(
    lost: Iterable[tuple[str, Claim]], now_ms: int, using: str, *, each_its_own: bool = False
) -> dict[str, int]:
    """Count lost leases, given as (fingerprint, claim); the crashes of each content since its last success.

    Counted are lost workers, not lost leases: a worker that dies with ten jobs of one content, none of which may
    be to blame, is one crash of it, also when its leases expire one after the other. Jobs that died in processes
    of their own (``each_its_own``) count each.
    """
    lost = list(lost)
    suspects = lock_suspects(sorted({fingerprint for fingerprint, _ in lost}), now_ms, using)
    for fingerprint, claim in sorted(lost, key=lambda one: one[1].started_at_ms):
        suspect = suspects[fingerprint]
        # A run that began after its worker was counted belongs to another worker of the same name.
        if each_its_own or claim.started_at_ms > suspect.workers.get(claim.worker_id, -1):
            suspect.crash_count += 1
            suspect.workers[claim.worker_id] = now_ms
    for suspect in suspects.values():
        newest = sorted(suspect.workers.items(), key=lambda one: one[1])[-MAX_WORKERS:]
        suspect.workers = dict(newest)
    Suspect.objects.using(using).bulk_update(suspects.values(), ["crash_count", "workers"], batch_size=100)
    return {fingerprint: suspect.crash_count for fingerprint, suspect in suspects.items()}


def lock_quarantines(fingerprints: Collection[str], using: str) -> dict[str, Quarantine]:
    """The rows of these contents, locked: no release of them can commit before this transaction does."""
    if not fingerprints:
        return {}
    rows = Quarantine.objects.using(using).filter(fingerprint__in=fingerprints)
    return {row.fingerprint: row for row in rows.order_by("fingerprint").select_for_update()}


def condemn(
    ended: Sequence[tuple[str, Claim, Settlement]],
    crashes: Mapping[str, int],
    known: Mapping[str, Quarantine],
    now_ms: int,
    using: str,
) -> None:
    """Write down the content of lost runs that were quarantined, given with their fingerprints.

    ``known`` is what ``lock_quarantines`` found. A canary that crashed is none any more.
    """
    rows: dict[str, Quarantine] = {}
    for fingerprint, claim, to in ended:
        if to.state is not State.QUARANTINED:
            continue
        row = rows.get(fingerprint) or known.get(fingerprint)
        if row is None or row.is_lifted:
            row = Quarantine(
                fingerprint=fingerprint,
                kind=claim.kind,
                reason=AT_LIMIT,
                sample_job_id=claim.id,
                created_at_ms=now_ms,
            )
        if row.canary_job_id == claim.id:
            row.canary_job_id, row.reason = "", CANARY_CRASHED
        row.crash_count = max(row.crash_count, crashes[fingerprint])
        rows[fingerprint] = row
    # An upsert, because somebody may have written the row by hand meanwhile.
    Quarantine.objects.using(using).bulk_create(
        [rows[fingerprint] for fingerprint in sorted(rows)],
        update_conflicts=True,
        unique_fields=["fingerprint"],
        update_fields=[field.name for field in Quarantine._meta.fields if not field.primary_key],
    )


def clears(claim: Claim, to: Settlement) -> bool:
    """Whether this end of a run, if its lease still holds, speaks for its content."""
    return to.event is Event.SUCCEED and bool(claim.suspect)


def clear(claims: Sequence[Claim], using: str) -> None:
    """Forget the crashes of content that has succeeded; a canary among the claims lifts the quarantine.

    Its jobs are given back by a duty, in batches.
    """
    fingerprints = sorted({claim.suspect for claim in claims})
    suspects = Suspect.objects.using(using)
    rows = suspects.filter(fingerprint__in=fingerprints).order_by("fingerprint").select_for_update()
    # None that has come since: it was not locked in order.
    suspects.filter(fingerprint__in=list(rows.values_list("fingerprint", flat=True))).delete()
    canaries = (
        Quarantine.objects.using(using)
        .in_force()
        .filter(fingerprint__in=fingerprints, canary_job_id__in=[claim.id for claim in claims])
    )
    cured = list(canaries.order_by("fingerprint").select_for_update().values_list("fingerprint", flat=True))
    if cured:
        Quarantine.objects.using(using).filter(fingerprint__in=cured).update(is_lifted=True)


def forget_suspects(*, before_ms: int, limit: int, using: str) -> int:
    """Delete up to ``limit`` suspects not seen since ``before_ms``, unless they are quarantined; how many."""
    return forget(
        using,
        "headgate_django_suspect",
        "fingerprint",
        where="""
            seen_at_ms < %s AND NOT EXISTS (
                SELECT 1 FROM headgate_django_quarantine poison
                WHERE poison.fingerprint = headgate_django_suspect.fingerprint
            )
        """,
        params=[before_ms],
        order="seen_at_ms",
        limit=limit,
    )
