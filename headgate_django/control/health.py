"""Is the queue well? Checks with thresholds, by the store's clock, as cheap in a deep queue as in an empty one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.db import Error, connections
from django.db.migrations.loader import MigrationLoader

from headgate_django.control.backlog import queues_with_work
from headgate_django.control.fleet import Fleet, fleet
from headgate_django.control.waits import Wait, due_jobs, longest_waits
from headgate_django.core.admission import EVERY_QUEUE
from headgate_django.core.states import State
from headgate_django.models import clock
from headgate_django.models.fleet import Duty, Worker
from headgate_django.models.job import Job
from headgate_django.models.queue import Queue
from headgate_django.models.store import alias, is_connection_trouble, is_postgres

APP = "headgate_django"
RECLAIM = "reclaim"
"""The duty that gives lost jobs back."""
DUTY_MS = 60_000
"""So long may the duty rest while there are workers."""
DEAD_MS = 3_600_000
POLL = "poll"
MAX_QUEUES = 1_000
"""Queues with work that are looked at."""
MAX_WAITS = 200
"""Of so many of them the waits."""
SHOWN = 5


class Level(StrEnum):
    """How a check ended. Only a failure makes the whole unhealthy."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What is still healthy. None: not looked at."""

    min_workers: int = 1
    max_wait_ms: int | None = 300_000
    max_dead: int | None = None
    max_stuck: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the report; ``value`` and ``limit`` where they are numbers (durations in seconds)."""

    name: str
    level: Level
    detail: str
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """All checks, in order. ``reachable``: the database answered."""

    checks: Sequence[Check]
    reachable: bool = True

    @property
    def healthy(self) -> bool:
        """Whether no check failed."""
        return not any(check.level is Level.FAILED for check in self.checks)


def examine(thresholds: Thresholds, *, using: str = "") -> Health:
    """Run the checks. Reads only.

    Never raises because the database does not answer, and never repeats what a driver says about it: that may hold
    the name of a host or a user.
    """
    using = using or alias()
    checks: list[Check] = []
    try:
        clock.now_ms(using)
        checks.append(_check("database", True, f"{using!r} answers"))
        checks.append(_migrations(using))
        if checks[-1].level is Level.OK:
            checks.extend(_of_the_queue(thresholds, using))
    except Error as error:
        if checks and not is_connection_trouble(error):
            raise
        lost = _check("database", False, f"{using!r} does not answer")
        return Health(checks=[lost, *checks[1:]], reachable=False)
    return Health(checks=checks)


def _check(name: str, well: bool, detail: str, value: float | None = None, limit: float | None = None) -> Check:
    return Check(name=name, level=Level.OK if well else Level.FAILED, detail=detail, value=value, limit=limit)


def _warning(name: str, well: bool, detail: str, value: float) -> Check:
    return Check(name=name, level=Level.OK if well else Level.WARNING, detail=detail, value=value)


def _migrations(using: str) -> Check:
    loader = MigrationLoader(connections[using])
    missing = [
        name for app, name in loader.graph.nodes if app == APP and (app, name) not in loader.applied_migrations
    ]
    detail = f"not applied: {_listed(sorted(missing))}; nothing else was looked at" if missing else "all applied"
    return _check("migrations", not missing, detail, len(missing), 0)


def _of_the_queue(thresholds: Thresholds, using: str) -> Iterator[Check]:
    found = fleet(using=using)
    yield _workers(found, thresholds.min_workers)
    queues, more = _open_queues(using)
    yield _served(queues, more, using)
    if thresholds.max_wait_ms is not None:
        yield _waits(queues, thresholds.max_wait_ms, found.at_ms, using)
    if thresholds.max_dead is not None:
        yield _dead(thresholds.max_dead, found.at_ms, using)
    yield _duties(found, using)
    yield _stuck(found, thresholds.max_stuck)
    yield _wakeup(found, using)
    yield _warning("silent workers", not found.stale, f"{found.stale} not heard of for a minute", found.stale)


def _workers(found: Fleet, minimum: int) -> Check:
    live = len(found.live)
    return _check("workers", live >= minimum, f"{live} live, at least {minimum} wanted", live, minimum)


def _open_queues(using: str) -> tuple[list[str], bool]:
    names = queues_with_work(using, MAX_QUEUES)
    due = {one.queue for one in due_jobs(using=using)}
    paused = set(Queue.objects.using(using).filter(paused=True).values_list("name", flat=True))
    return sorted({*names, *due} - paused), len(names) >= MAX_QUEUES


def _served(queues: list[str], more: bool, using: str) -> Check:
    admitting = Worker.objects.using(using).admitting().values_list("queues", flat=True)
    served = {name for names in admitting for name in names}
    alone = [] if EVERY_QUEUE in served else [name for name in queues if name not in served]
    looked = f"{'the first ' if more else ''}{len(queues)} with jobs that could run"
    detail = f"no live worker admits from {_listed(alone)}" if alone else f"{looked}, all served"
    return _check("queues", not alone, detail, len(alone), 0)


def _waits(queues: list[str], limit_ms: int, now_ms: int, using: str) -> Check:
    waits = longest_waits(queues[:MAX_WAITS], now_ms, using=using)
    late = {name: wait for name, wait in waits.items() if wait.oldest_ms > limit_ms}
    worst = max((wait.oldest_ms for wait in waits.values()), default=0)
    ranked = sorted(late, key=lambda name: -late[name].oldest_ms)
    if late:
        waiting = _listed([f"{name!r} {_seconds(late[name])}" for name in ranked], quoted=True)
        detail = f"longer than {limit_ms / 1000:g} s: {waiting}"
    else:
        detail = f"the oldest job that could run waits {worst / 1000:.1f} s"
    if len(queues) > MAX_WAITS:
        detail += f" (of the first {MAX_WAITS} queues)"
    return _check("waits", not late, detail, worst / 1000, limit_ms / 1000)


def _dead(limit: int, now_ms: int, using: str) -> Check:
    died = Job.objects.using(using).in_state(State.ARCHIVED).filter(finalized_at_ms__gt=now_ms - DEAD_MS)
    # No further than one beyond the limit, however many there are.
    number = len(died.order_by("-finalized_at_ms", "-pk").values_list("pk")[: limit + 1])
    shown = f"more than {limit}" if number > limit else str(number)
    detail = f"{shown} in the last hour, at most {limit} wanted"
    return _check("dead letters", number <= limit, detail, number, limit)


def _duties(found: Fleet, using: str) -> Check:
    if not found.live:
        return _check("duties", True, "no live worker that could hold one")
    # A lease ends a few seconds after the last pass, or with the worker that gave it back.
    ended_ms = Duty.objects.using(using).filter(name=RECLAIM).values_list("expires_at_ms", flat=True).first()
    since_ms = ended_ms or min(worker.started_at_ms for worker in found.live)
    rests_ms = max(0, found.at_ms - since_ms)
    detail = f"{RECLAIM} is held" if not rests_ms else f"nobody has held {RECLAIM} for {rests_ms / 1000:.1f} s"
    return _check("duties", rests_ms <= DUTY_MS, detail, rests_ms / 1000, DUTY_MS / 1000)


def _stuck(found: Fleet, limit: int) -> Check:
    workers = [worker for worker in found.live if worker.stuck]
    number = sum(worker.stuck for worker in workers)
    detail = f"{number} on {_listed([worker.id for worker in workers])}" if workers else "none"
    return _check("stuck threads", number <= limit, detail, number, limit)


def _wakeup(found: Fleet, using: str) -> Check:
    polling = [worker.id for worker in found.live if worker.wakeup == POLL] if is_postgres(using) else []
    detail = f"hear of new work by polling only: {_listed(polling)}" if polling else "nobody is deaf"
    return _warning("wake-up", not polling, detail, len(polling))


def _listed(names: Sequence[str], *, quoted: bool = False) -> str:
    shown = ", ".join(name if quoted else repr(name) for name in names[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown


def _seconds(wait: Wait) -> str:
    return f"{'at least ' if wait.more else ''}{wait.oldest_ms / 1000:.1f} s"
