"""All verbs at once from many threads, for a bounded number of steps. Only what must always hold is asserted."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest
from django.db import OperationalError, connection

from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.core.states import TERMINAL, Event, State
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.cancel import cancel
from headgate_django.lifecycle.evict import evict
from headgate_django.lifecycle.promote import promote
from headgate_django.lifecycle.reclaim import reclaim
from headgate_django.lifecycle.redrive import redrive
from headgate_django.lifecycle.renew import renew
from headgate_django.models import Job
from headgate_django.models.store import retrying_locked
from tests.support.backlog import Backlog, load
from tests.support.locks import together

pytestmark = pytest.mark.django_db(transaction=True)

JOBS, WORKERS, STEPS = 300, 4, 40
LEASE = 30_000
OUTCOMES = [Event.SUCCEED, Event.RETRY, Event.SKIP, Event.INTERRUPT, Event.SNOOZE]


class Tally:
    """What all threads saw."""

    def __init__(self) -> None:
        self.claimed: Counter[tuple[str, int]] = Counter()
        self.ended: Counter[tuple[str, int]] = Counter()
        self.deadlocks: list[str] = []
        self._lock = threading.Lock()

    def add(self, counter: Counter[tuple[str, int]], claims: list[Claim]) -> None:
        with self._lock:
            counter.update((claim.id, claim.fence) for claim in claims)

    def watch(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        """Note every deadlock, even those that a retry hides."""
        try:
            return execute(sql, params, many, context)
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", "") == "40P01":
                self.deadlocks.append(f"{sql[:200]} … {error}")
            raise


def worker(name: str, tally: Tally) -> None:
    rng, gate, mine = Random(name), Gate(name, lease_ms=LEASE), []
    for _ in range(STEPS):
        claims = gate.admit(rng.randint(1, 10))
        tally.add(tally.claimed, claims)
        mine += claims
        lost = renew(rng.sample(mine, len(mine)), LEASE)
        mine = [claim for claim in mine if claim not in lost]
        ending = [claim for claim in mine if rng.random() < 0.6]
        rng.shuffle(ending)
        refused = ack([(claim, Outcome(event=rng.choice(OUTCOMES), delay_ms=0)) for claim in ending])
        tally.add(tally.ended, [claim for claim in ending if claim not in refused])
        mine = [claim for claim in mine if claim not in ending]


def operator(tally: Tally, now: Any, cancelled_at_once: int) -> None:
    rng = Random(cancelled_at_once)
    verbs: list[Callable[[], int]] = [
        reclaim,
        evict,
        lambda: redrive(Job.objects.in_state(State.ARCHIVED, State.CANCELLED)),
        lambda: promote(Job.objects.in_state(State.SCHEDULED, State.RETRYABLE)),
        lambda: cancel(Job.objects.in_state(State.AVAILABLE).filter(id__in=some(rng, 30))),
        lambda: cancel(Job.objects.filter(id__in=some(rng, cancelled_at_once))),
    ]
    for step in range(STEPS * 2):
        retrying_locked("default", rng.choice(verbs))
        if step % 20 == 0:
            now.advance(milliseconds=LEASE)


def some(rng: Random, count: int) -> list[str]:
    return [f"b{1_000_000_000 + number}" for number in rng.sample(range(JOBS), count)]


def run_all(now: Any, cancelled_at_once: int) -> Tally:
    # So few rows that the planner makes what it likes.
    load(Backlog(count=JOBS, partitions=5, partition="p", at_ms=now.at_ms - 10**9))
    tally = Tally()

    def watched(call: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            with connection.execute_wrapper(tally.watch):
                call()

        return run

    together(
        *(watched(partial(worker, f"w{number}", tally)) for number in range(WORKERS)),
        *(watched(partial(operator, tally, now, cancelled_at_once)) for _ in range(2)),
    )
    return tally


def assert_the_law(tally: Tally) -> None:
    assert set(tally.claimed.values()) == {1}, "a fence was given twice"
    assert set(tally.ended.values()) <= {1}, "a run ended twice"
    assert tally.ended.keys() <= tally.claimed.keys()
    jobs = Job.objects.filter(id__startswith="b")
    fences = {job_id: fence for job_id, fence in jobs.values_list("id", "fence") if fence}
    assert Counter(job_id for job_id, _ in tally.claimed) == fences
    stored = set(jobs.values_list("state", flat=True))
    assert stored <= TERMINAL | {State.AVAILABLE, State.RUNNING, State.SCHEDULED, State.RETRYABLE}


@pytest.mark.parametrize("cancelled_at_once", [1, 30])
def test_all_verbs_at_once_keep_the_law_and_never_deadlock(now, cancelled_at_once: int):
    tally = run_all(now, cancelled_at_once)

    assert tally.deadlocks == []
    assert_the_law(tally)
