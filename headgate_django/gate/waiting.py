"""What the limits say to one waiting job: the turnstile, read-only, with the jobs before it in its stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headgate_django.core.allocation import Stream
from headgate_django.core.buckets import RateState
from headgate_django.core.states import State
from headgate_django.core.turnstile import Answer, Ceiling, Scope, Turnstile
from headgate_django.gate.limits import counted_with, load_turnstile
from headgate_django.gate.policies import load_partitions
from headgate_django.models.job import Job
from headgate_django.models.rates import READ
from headgate_django.models.store import fetch, literals

MAX_AHEAD = 1_000
MAX_HOLDERS = 5


@dataclass(frozen=True, slots=True)
class Hindrance:
    """The limit that says no, in words, and when it may say yes (None: nobody can tell)."""

    blocked_by: str
    detail: str
    eta_ms: int | None = None


def hindrance(job: Job, now_ms: int, using: str) -> Hindrance | None:
    """The first limit that holds this job back at the next admit, or None."""
    stream = Stream(job.queue, job.partition_key, job.rate_class, job.sticky_worker)
    turnstile = load_turnstile([stream], now_ms, has_ceilings=True, lock=READ, using=using)
    if not turnstile.classes and not turnstile.ceilings:
        return None
    load_partitions({stream.group}, turnstile, using=using)
    state = turnstile.classes.get(stream.rate_class)
    if state is not None and not state.is_open:
        return _closed(state)
    ahead = 0
    for weight in _weights_before(job, stream, using):
        ruling = turnstile.rule(stream, weight)
        if ruling.answer is Answer.HOLD:
            break
        if ruling.answer is Answer.ADMIT:
            turnstile.admit(stream, weight, ruling)
            ahead += weight
    return _ruling(job, stream, turnstile, ahead, using)


def _closed(state: RateState) -> Hindrance:
    if state.paused:
        return Hindrance("paused rate class", f"rate class {state.name} is paused")
    wait_ms = state.held_until_ms - state.now_ms
    detail = f"rate class {state.name} is held back for {wait_ms / 1000:.1f} s: the far end asked for a pause"
    return Hindrance("rate class held back", detail, wait_ms)


def _ruling(job: Job, stream: Stream, turnstile: Turnstile, ahead: int, using: str) -> Hindrance | None:
    ruling = turnstile.rule(stream, job.weight)
    if ruling.answer is Answer.ADMIT:
        return None
    if ruling.answer is Answer.TOO_HEAVY:
        return Hindrance("weight", f"{ruling.reason}; it will be archived")
    full = turnstile.full(stream)
    if ruling.answer is not Answer.HOLD:
        return Hindrance("concurrency limit", f"{ruling.reason}; the job will be taken out ({ruling.answer})")
    if full:
        return Hindrance("concurrency limit", _holders(full[0], stream, using))
    state = turnstile.classes[stream.rate_class]
    budget = state.lacking(stream.partition_key, job.weight)
    assert budget is not None
    tokens = state.bucket(budget, stream.partition_key).tokens
    detail = f"rate class {state.name}, budget {budget}: {tokens} tokens are left, the job needs {job.weight}" + (
        f", after {ahead} for jobs before it" if ahead else ""
    )
    return Hindrance("rate budget", detail, state.wait_ms(stream.partition_key, job.weight))


def _holders(ceiling: Ceiling, stream: Stream, using: str) -> str:
    condition, params = counted_with(ceiling, stream)
    rows = fetch(
        using,
        f"SELECT id, worker_id FROM headgate_django_job WHERE state = '{State.RUNNING}' AND {condition}"
        " ORDER BY attempted_at_ms, id LIMIT %s",
        [*params, MAX_HOLDERS + 1],
    )
    shown = ", ".join(f"{job_id} on {worker_id}" for job_id, worker_id in rows[:MAX_HOLDERS])
    more = " and more" if len(rows) > MAX_HOLDERS else ""
    before = "" if rows else "jobs before it"
    scope = f"{ceiling.scope.replace('_', ' ')} {ceiling.key}"
    if ceiling.scope is Scope.PARTITION:
        scope = f"partition {stream.partition_key!r} of queue {ceiling.key}"
    places = "the place" if ceiling.max_concurrent == 1 else f"all {ceiling.max_concurrent} places"
    return f"concurrency limit {ceiling.name}: {places} of {scope} taken by {shown or before}{more}"


def _weights_before(job: Job, stream: Stream, using: str) -> Iterator[int]:
    # Along the ready index; the job itself ends the walk.
    rows = fetch(
        using,
        "SELECT id, weight FROM headgate_django_job"
        f" WHERE state = {literals(State.AVAILABLE)}"
        " AND queue = %s AND partition_key = %s AND rate_class = %s AND sticky_worker = %s"
        " ORDER BY priority DESC, scheduled_at_ms, id LIMIT %s",
        [*stream, MAX_AHEAD],
    )
    for job_id, weight in rows:
        if job_id == job.pk:
            return
        yield weight
