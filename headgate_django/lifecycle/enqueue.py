"""Store jobs, in the caller's own transaction.

Everything is validated before the first statement, so a bad item cannot poison the transaction. Nothing
shared is locked: producers of an uncapped queue never wait for each other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connections

from headgate_django.core.envelope import MAX_BATCH_BYTES, MAX_BATCH_JOBS, Envelope, validate
from headgate_django.core.states import State
from headgate_django.exceptions import IdConflict, InvalidJob, Quarantined
from headgate_django.lifecycle.backpressure import lock_queues, require_room
from headgate_django.lifecycle.wakeup import notify_after_commit
from headgate_django.models import clock
from headgate_django.models.job import Job
from headgate_django.models.rates import smallest_bursts
from headgate_django.models.store import (
    alias,
    execute,
    fetch,
    marks,
    retrying_locked,
    take_write_lock,
    write_transaction,
)
from headgate_django.signals import job_enqueued, send_after_commit


def enqueue(envelopes: Sequence[Envelope], *, using: str = "") -> list[Job]:
    """Store all the envelopes or none; the jobs, in order. An empty batch is a no-op.

    A job whose caller-chosen id exists with the same kind, fingerprint and queue is returned as it stands.
    Raises InvalidJob (naming the item), IdConflict, Quarantined or QueueFull, always before any write.
    """
    if not envelopes:
        return []
    _validate_batch(envelopes)
    using = using or alias()
    own_ids = {envelope.id for envelope in envelopes if envelope.id}
    batch = [envelope.with_id() for envelope in envelopes]
    # A savepoint is needed only where the insert itself may turn out to conflict.
    if connections[using].in_atomic_block and not own_ids:
        take_write_lock(using)
        return _store(batch, own_ids, using)

    def work() -> list[Job]:
        with write_transaction(using):
            return _store(batch, own_ids, using)

    for _ in range(len(own_ids) + _RACES):
        try:
            return retrying_locked(using, work)
        except _LostRace:
            continue  # the winner has committed, so the next preflight sees one id more
    raise IdConflict(min(own_ids))


_RACES = 3


class _LostRace(Exception):
    """Another transaction stored, or deleted, a job with one of the caller's ids since the preflight."""


def _validate_batch(envelopes: Sequence[Envelope]) -> None:
    if len(envelopes) > MAX_BATCH_JOBS:
        raise InvalidJob("batch", f"must contain at most {MAX_BATCH_JOBS} jobs, not {len(envelopes)}")
    seen: set[str] = set()
    for index, envelope in enumerate(envelopes):
        try:
            validate(envelope)
        except InvalidJob as error:
            raise (error.at_item(index) if len(envelopes) > 1 else error) from None
        if envelope.id and envelope.id in seen:
            raise IdConflict(envelope.id)
        seen.add(envelope.id)
    size = sum(len(envelope.payload) for envelope in envelopes)
    if size > MAX_BATCH_BYTES:
        raise InvalidJob("batch", f"must total at most {MAX_BATCH_BYTES} payload bytes, not {size}")


@dataclass
class _Preflight:
    now_ms: int = 0
    quarantined: set[str] = field(default_factory=set)
    capped: set[str] = field(default_factory=set)
    existing: dict[str, tuple[str, str, str]] = field(default_factory=dict)


def _store(batch: list[Envelope], own_ids: set[str], using: str) -> list[Job]:
    found = _preflight(batch, own_ids, using)
    capped = sorted(found.capped)
    if capped:
        lock_queues(capped, using)
        if own_ids:  # whoever held the lock may have stored the same ids: they need no place
            found = _preflight(batch, own_ids, using)
    fresh = [envelope for envelope in batch if not _is_replay(envelope, found)]
    for envelope in fresh:
        if envelope.fingerprint in found.quarantined:
            raise Quarantined(envelope.fingerprint, envelope.kind)
    _refuse_too_heavy(fresh, using)
    for queue in capped:
        require_room(queue, sum(envelope.queue == queue for envelope in fresh), using)

    jobs = {envelope.id: _as_job(envelope, found.now_ms, using) for envelope in fresh}
    if jobs:
        _insert(fresh, jobs, own_ids, using)
        send_after_commit(job_enqueued, Job, using=using, jobs=list(jobs.values()))
        notify_after_commit({job.queue for job in jobs.values() if job.state == State.AVAILABLE}, using)
    replayed = [envelope.id for envelope in batch if envelope.id not in jobs]
    jobs.update(Job.objects.using(using).in_bulk(replayed) if replayed else {})
    if len(jobs) < len(batch):
        raise _LostRace
    return [jobs[envelope.id] for envelope in batch]


def _refuse_too_heavy(fresh: list[Envelope], using: str) -> None:
    # A job of weight 1 fits every burst, so most batches ask nothing.
    heavy = {envelope.rate_class for envelope in fresh if envelope.weight > 1} - {""}
    bursts = smallest_bursts(heavy, using=using) if heavy else {}
    for index, envelope in enumerate(fresh):
        burst = bursts.get(envelope.rate_class)
        if burst is not None and envelope.weight > burst:
            problem = f"{envelope.weight} is above the burst of rate class {envelope.rate_class}, which is {burst}"
            raise InvalidJob("weight", problem, item=index if len(fresh) > 1 else None)


def _preflight(batch: list[Envelope], own_ids: set[str], using: str) -> _Preflight:
    # One statement answers everything that can refuse the batch.
    fingerprints = sorted({envelope.fingerprint for envelope in batch})
    queues = sorted({envelope.queue for envelope in batch})
    sql = [
        f"SELECT 'now', '', '', '', {clock.now_sql(using)}",
        f"SELECT 'quarantine', fingerprint, '', '', 0 FROM headgate_django_quarantine"
        f" WHERE NOT is_lifted AND fingerprint IN ({marks(len(fingerprints))})",
        f"SELECT 'queue', name, '', '', 0 FROM headgate_django_queue"
        f" WHERE max_unfinished_jobs IS NOT NULL AND name IN ({marks(len(queues))})",
    ]
    params: list[Any] = [*fingerprints, *queues]
    if own_ids:
        sql.append(
            f"SELECT id, kind, fingerprint, queue, 1 FROM headgate_django_job WHERE id IN ({marks(len(own_ids))})"
        )
        params += sorted(own_ids)
    found = _Preflight()
    for first, second, third, fourth, number in fetch(using, " UNION ALL ".join(sql), params):
        if number == 1:
            found.existing[first] = (second, third, fourth)
        elif first == "now":
            found.now_ms = int(number)
        elif first == "quarantine":
            found.quarantined.add(second)
        else:
            found.capped.add(second)
    return found


def _is_replay(envelope: Envelope, found: _Preflight) -> bool:
    stored = found.existing.get(envelope.id)
    if stored is None:
        return False
    if stored != (envelope.kind, envelope.fingerprint, envelope.queue):
        raise IdConflict(envelope.id)
    return True


def _as_job(envelope: Envelope, now_ms: int, using: str) -> Job:
    scheduled_at_ms = envelope.scheduled_at_ms or now_ms + envelope.delay_ms
    if envelope.pending:
        state = State.PENDING
    else:
        state = State.SCHEDULED if scheduled_at_ms > now_ms else State.AVAILABLE
    job = Job(
        id=envelope.id,
        kind=envelope.kind,
        schema_version=envelope.schema_version,
        fingerprint=envelope.fingerprint,
        queue=envelope.queue,
        partition_key=envelope.partition_key,
        rate_class=envelope.rate_class,
        sticky_worker=envelope.sticky_worker,
        priority=envelope.priority,
        weight=envelope.weight,
        max_attempts=envelope.max_attempts,
        timeout_ms=envelope.timeout_ms,
        deadline_ms=envelope.deadline_ms or (now_ms + envelope.deadline_in_ms if envelope.deadline_in_ms else 0),
        retention_ms=envelope.retention_ms,
        tags=sorted(envelope.tags),
        enqueued_at_ms=now_ms,
        scheduled_at_ms=scheduled_at_ms,
        state=state.value,
    )
    job._state.adding, job._state.db = False, using
    return job


_COLUMNS = (
    "id", "kind", "schema_version", "fingerprint", "queue", "partition_key", "rate_class", "sticky_worker",
    "priority", "weight", "max_attempts", "timeout_ms", "deadline_ms", "retention_ms", "enqueued_at_ms",
    "scheduled_at_ms", "state", "tags", "attempt", "crash_attempt", "interruptions", "fence", "lease_id",
    "worker_id", "error_class", "error_summary", "error_group",
)  # fmt: skip


def _insert(fresh: list[Envelope], jobs: dict[str, Job], own_ids: set[str], using: str) -> None:
    rows = []
    for envelope in fresh:
        values = [getattr(jobs[envelope.id], column) for column in _COLUMNS]
        values[_COLUMNS.index("tags")] = json.dumps(jobs[envelope.id].tags)
        rows.append(values)
    rows.sort(key=lambda row: str(row[0]))  # two batches with the same ids meet in the same order: no deadlock
    inserted = _insert_rows(
        using,
        f"INSERT INTO headgate_django_job ({', '.join(_COLUMNS)}) VALUES",
        rows,
        # A caller's id may meet the same id in a transaction that commits meanwhile.
        "ON CONFLICT (id) DO NOTHING" if own_ids else "",
    )
    if inserted < len(rows):
        raise _LostRace
    _insert_rows(
        using,
        "INSERT INTO headgate_django_payload (job_id, data, headers) VALUES",
        [[envelope.id, envelope.payload, json.dumps(dict(envelope.headers))] for envelope in fresh],
    )


def _insert_rows(using: str, sql: str, rows: list[list[Any]], suffix: str = "") -> int:
    width = len(rows[0])
    step = max(1, (connections[using].features.max_query_params or 20_000) // width)
    inserted = 0
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        params = [value for row in part for value in row]
        inserted += execute(using, f"{sql} {marks(len(part), width)} {suffix}", params)
    return inserted
