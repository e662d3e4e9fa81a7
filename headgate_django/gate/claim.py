"""Step 6: claim and lease, one statement; then the payloads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from headgate_django.core.drawing import Candidate
from headgate_django.core.outcomes import Claim
from headgate_django.core.states import Event, State, sources
from headgate_django.models.store import batches, fetch, literals, marks, unindexed

_RETURNED = (
    "id", "kind", "schema_version", "queue", "partition_key", "rate_class", "fence", "attempt", "crash_attempt",
    "interruptions", "max_attempts", "scheduled_at_ms", "timeout_ms", "deadline_ms", "retention_ms",
    "weight",
)  # fmt: skip
_SUSPECT = """(
    SELECT suspect.fingerprint FROM headgate_django_suspect suspect
    WHERE suspect.fingerprint = headgate_django_job.fingerprint
)"""


def claim(
    candidates: Sequence[Candidate], *, worker_id: str, lease_id: str, lease_ms: int, now_ms: int, using: str
) -> list[Claim]:
    """Make the candidates running under one lease; the claims, payloads included, in the given order."""
    claims: list[Claim] = []
    for ids in batches([candidate.id for candidate in candidates], using):
        claims += _claim(ids, worker_id, lease_id, lease_ms, now_ms, using)
    return claims


def _claim(
    ids: Sequence[str], worker_id: str, lease_id: str, lease_ms: int, now_ms: int, using: str
) -> list[Claim]:
    rows = fetch(
        using,
        f"""
        UPDATE headgate_django_job
        SET state = '{State.RUNNING}', fence = fence + 1, lease_id = %s, lease_expires_at_ms = %s,
            worker_id = %s, attempted_at_ms = %s
        WHERE id IN ({marks(len(ids))}) AND {unindexed("state")} IN ({literals(*sources(Event.ADMIT))})
        RETURNING {", ".join(_RETURNED)}, {_SUSPECT}
        """,
        [lease_id, now_ms + lease_ms, worker_id, now_ms, *ids],
    )
    private = _payloads([row[0] for row in rows], using)
    claims = {
        row[0]: Claim(
            **dict(zip(_RETURNED, row[:-1], strict=True)),
            suspect=row[-1] or "",
            lease_id=lease_id,
            started_at_ms=now_ms,
            worker_id=worker_id,
            payload=private.get(row[0], (b"", "{}"))[0],
            headers=private.get(row[0], (b"", "{}"))[1],
        )
        for row in rows
    }
    return [claims[job_id] for job_id in ids if job_id in claims]


def _payloads(ids: Sequence[str], using: str) -> dict[str, tuple[bytes, str]]:
    rows: list[tuple[Any, ...]] = fetch(
        using,
        f"SELECT job_id, data, headers FROM headgate_django_payload WHERE job_id IN ({marks(len(ids))})",
        ids,
    )
    return {
        job_id: (bytes(data), headers if isinstance(headers, str) else json.dumps(headers))
        for job_id, data, headers in rows
    }
