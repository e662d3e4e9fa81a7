"""``explain`` says what the gate does: the first step that says no, or the place in the line."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from headgate_django.core.commands import Status
from headgate_django.core.states import State
from headgate_django.gate.admit import Gate
from headgate_django.gate.explain import explain
from headgate_django.lifecycle.cancel import cancel
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.models import Job, Partition, Quarantine, Queue, Worker
from tests.support.backlog import Backlog, load
from tests.support.builders import EnvelopeFactory, in_state, queued
from tests.support.plans import watched

LATER = 60_000


@pytest.fixture
def worker(now) -> Callable[..., None]:
    """A live worker: ``worker("w1", "queue")``; of every queue if none is named."""

    def beat(name: str = "w1", *queues: str) -> None:
        served = dict.fromkeys(queues or ("*",), 1)
        Worker.objects.beat(name, hostname="h", pid=1, version="1", queues=served, capacity=1)

    return beat


def poison(job: Job) -> None:
    Quarantine.objects.create(fingerprint=job.fingerprint, kind=job.kind, reason="test", created_at_ms=1)


def test_a_job_that_may_run_is_admissible(worker):
    worker()

    explanation = explain(queued())

    assert (explanation.admissible, explanation.blocked_by, explanation.position) == (True, "", 1)


@pytest.mark.parametrize(
    "state", [State.COMPLETED, State.ARCHIVED, State.CANCELLED, State.QUARANTINED, State.UNDECODABLE]
)
def test_a_finished_job_says_that_it_is_finished(worker, state: State):
    worker()

    explanation = explain(in_state(state))

    assert (explanation.admissible, explanation.blocked_by) == (False, "finished")
    assert state in explanation.detail


def test_a_running_job_says_where_it_runs(worker):
    worker()

    explanation = explain(in_state(State.RUNNING, worker_id="w7"))

    assert (explanation.blocked_by, explanation.detail) == ("running", "runs on w7")


def test_a_pending_job_waits_for_somebody(worker):
    worker()

    assert explain(in_state(State.PENDING)).blocked_by == "pending"


def test_a_scheduled_job_says_how_long_it_waits(worker, now):
    worker()
    job = queued(delay_ms=LATER)
    now.advance(milliseconds=LATER - 1_500)

    explanation = explain(job)

    assert (explanation.blocked_by, explanation.eta_ms, explanation.detail) == ("schedule", 1_500, "due in 1.5 s")


def test_a_job_whose_time_has_come_is_admissible_before_anybody_has_looked(worker, now):
    job = queued(delay_ms=LATER)
    now.advance(milliseconds=LATER)
    worker()

    assert explain(job).admissible


def test_a_paused_queue_is_named(worker):
    worker()
    Queue.objects.create(name="default", paused=True)

    assert explain(queued()).blocked_by == "paused queue"


def test_a_paused_partition_is_named(worker):
    worker()
    Partition.objects.create(queue="default", key="acme", paused=True)

    assert explain(queued(partition_key="acme")).blocked_by == "paused partition"
    assert explain(queued(partition_key="other")).admissible


def test_a_queue_that_nobody_serves_is_named(worker):
    worker("w1", "other")

    assert explain(queued()).blocked_by == "no worker"


def test_a_worker_that_was_not_heard_of_lately_does_not_count(worker, now):
    worker()
    job = queued()
    now.advance(minutes=2)

    assert explain(job).blocked_by == "no worker"


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.RUNNING])
def test_a_worker_that_admits_nothing_does_not_count(worker, status):
    worker()
    Worker.objects.update(status=status)

    assert explain(queued()).blocked_by == "no worker"


def test_a_job_pinned_to_a_worker_that_is_gone_says_so(worker):
    worker("w1")

    assert explain(queued(sticky_worker="w2")).blocked_by == "sticky worker"


def test_a_job_pinned_to_a_worker_of_other_queues_says_so(worker):
    worker("w1")
    worker("w2", "other")

    assert explain(queued(sticky_worker="w2")).blocked_by == "sticky worker"
    assert explain(queued(sticky_worker="w2", queue="other")).admissible


def test_a_job_may_be_pinned_to_all_processes_of_a_worker_command(worker):
    worker("w1")
    Worker.objects.update(supervisor="imports")

    assert explain(queued(sticky_worker="imports")).admissible
    assert explain(queued(sticky_worker="w1")).blocked_by == "sticky worker"
    assert explain(queued(sticky_worker="exports")).blocked_by == "sticky worker"


def test_a_passed_deadline_is_named(worker, now):
    worker()
    job = queued(deadline_in_ms=LATER)
    now.advance(milliseconds=LATER)
    worker()

    assert explain(job).blocked_by == "deadline"


def test_quarantined_content_is_named(worker):
    worker()
    job = queued()
    poison(job)

    assert explain(job).blocked_by == "quarantine"


def test_of_several_reasons_the_first_in_the_order_of_the_gate_is_named(worker, now):
    job = queued(partition_key="acme", sticky_worker="w2", deadline_in_ms=LATER, delay_ms=LATER)
    Queue.objects.create(name="default", paused=True)
    Partition.objects.create(queue="default", key="acme", paused=True)
    poison(job)
    reasons = [explain(job).blocked_by]

    now.advance(milliseconds=LATER)
    for remedy in (
        lambda: None,
        lambda: Queue.objects.update(paused=False),
        lambda: worker("w1"),
        lambda: worker("w2"),
        lambda: Partition.objects.update(paused=False),
        lambda: Quarantine.objects.all().delete(),
        lambda: Job.objects.update(deadline_ms=0),
    ):
        remedy()
        reasons.append(explain(job).blocked_by)

    assert reasons == [
        "schedule", "paused queue", "no worker", "sticky worker", "paused partition", "quarantine", "deadline", "",
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_what_is_called_admissible_is_admitted_next_and_nothing_else(worker, now, seed: int):
    rng = Random(seed)
    served = {"w1": {"a": 1, "b": 2}, "w2": {"*": 1}, "w3": {"nothing": 1}}
    Queue.objects.create(name="paused", paused=True)
    Partition.objects.create(queue="a", key="paused", paused=True)
    jobs = enqueue(
        [
            EnvelopeFactory(
                queue=rng.choice(["a", "b", "c", "paused"]),
                partition_key=rng.choice(["", "x", "paused"]),
                rate_class=rng.choice(["", "api"]),
                sticky_worker=rng.choice(["", "", "", "w1", "w2", "w3", "gone"]),
                priority=rng.randint(-3, 3),
                pending=rng.random() < 0.1,
            )
            for _ in range(60)
        ]
        + [EnvelopeFactory(queue="b", delay_ms=LATER + rng.randint(-1, 1)) for _ in range(10)]
        + [EnvelopeFactory(queue="c", deadline_in_ms=LATER + rng.randint(0, 1)) for _ in range(10)]
    )
    for job in rng.sample(jobs, 8):
        poison(job)
    cancel(Job.objects.filter(pk__in=[job.pk for job in rng.sample(jobs, 5)]))
    now.advance(milliseconds=LATER)
    for name, queues in served.items():
        worker(name, *queues)

    called = {job.id for job in jobs if explain(job).admissible}
    admitted = {claim.id for name, queues in served.items() for claim in Gate(name, queues=queues).admit(1_000)}

    assert called == admitted
    assert 0 < len(called) < len(jobs)


@pytest.mark.parametrize("seed", range(3))
def test_the_position_is_the_turn_in_which_the_job_is_admitted(worker, now, seed: int):
    rng = Random(seed)
    worker()
    jobs = enqueue(
        [
            EnvelopeFactory(
                rate_class=rng.choice("abc"), sticky_worker=rng.choice(["", "w1"]), priority=rng.randint(0, 2)
            )
            for _ in range(30)
        ]
    )
    enqueue(
        [EnvelopeFactory(partition_key="another", priority=9), EnvelopeFactory(sticky_worker="w2", priority=9)]
    )
    pinned = {job.id: explain(job).position for job in jobs if job.sticky_worker}

    order = [claim.id for claim in Gate("w1").admit(100) if not claim.partition_key]

    assert pinned == {job_id: order.index(job_id) + 1 for job_id in pinned}


def test_a_position_beyond_a_thousand_is_not_counted_out(worker):
    worker()
    load(Backlog(count=3_000, rate_classes=3))
    last = Job.objects.order_by("priority", "-scheduled_at_ms").first()
    first = Job.objects.order_by("-priority", "scheduled_at_ms").first()

    with watched() as watch:
        far, near = explain(last), explain(first)

    assert (far.position, far.detail) == (1_001, "number 1000+ of its partition")
    assert (near.position, near.detail) == (1, "number 1 of its partition")
    assert all(statement.rows <= 1_001 for statement in watch.statements)
