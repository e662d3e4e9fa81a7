"""Progress: how far runs have come. One statement for many, under their fences."""

from __future__ import annotations

from collections.abc import Sequence

from headgate_django.core.outcomes import Claim, Progress
from headgate_django.lifecycle import fence
from headgate_django.models import clock
from headgate_django.models.store import (
    execute,
    retrying_locked,
    rows_per_statement,
    rowset,
)


def write_progress(reports: Sequence[tuple[Claim, Progress]], using: str) -> None:
    """Store the progress of runs that still hold their lease; a late report writes nothing.

    Of one run reported twice the last report counts. A job that somebody has locked is left out: progress is worth
    no wait. Only columns that no index knows are touched.
    """
    newest = {claim.run_id: (claim, progress) for claim, progress in reports}
    rows = [_row(*newest[key]) for key in sorted(newest)]  # by id, as all who lock several jobs do
    step = rows_per_statement(using, len(_COLUMNS))
    for start in range(0, len(rows), step):
        _write(rows[start : start + step], using)


_COLUMNS = {**fence.COLUMNS, "done": "bigint", "total": "bigint", "note": "text"}
_WRITE = """
WITH {reported} {locked}
UPDATE headgate_django_job
SET progress_done = reported.done,
    progress_total = reported.total,
    progress_note = reported.note,
    progress_at_ms = {now}
FROM reported
WHERE {still_held}
"""


def _row(claim: Claim, progress: Progress) -> tuple[object, ...]:
    return *fence.key(claim), progress.done, progress.total, progress.note


def _write(rows: Sequence[Sequence[object]], using: str) -> None:
    reported, params = rowset(using, "reported", _COLUMNS, rows)
    locked, still_held = fence.updating("reported", using, wait=False)
    sql = _WRITE.format(reported=reported, locked=locked, still_held=still_held, now=clock.now_sql(using))
    retrying_locked(using, lambda: execute(using, sql, params))
