"""Facts are reported after commit, and nothing depends on who hears them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.dispatch import Signal
from django.test.utils import CaptureQueriesContext

from headgate_django import signals
from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import Event, State
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.cancel import cancel
from headgate_django.lifecycle.evict import evict
from headgate_django.lifecycle.reclaim import reclaim
from headgate_django.models import ArchivedJob, Job, clock
from tests.support.builders import BOOM, ended, in_state, queued, running

SIGNALS = ["job_enqueued", "job_admitted", "job_transitioned", "job_died", "jobs_evicted"]

Heard = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def heard() -> Iterator[Heard]:
    """Everything that is reported, by the name of its signal."""
    facts: Heard = []
    receivers = {}
    for name in SIGNALS:

        def receive(sender: type, signal: Signal, name: str = name, **kwargs: Any) -> None:
            assert sender is Job
            facts.append((name, kwargs))

        receivers[name] = receive
        getattr(signals, name).connect(receive, sender=Job)
    yield facts
    for name, receive in receivers.items():
        assert getattr(signals, name).disconnect(receive, sender=Job)


@pytest.fixture
def frozen() -> Iterator[clock.FrozenClock]:
    """The stopped clock, for tests whose transactions really commit."""
    with clock.frozen(1_767_225_600_000) as stopped:
        yield stopped


def names(heard: Heard) -> list[str]:
    return [name for name, _ in heard]


committing = pytest.mark.django_db(transaction=True)


@committing
def test_an_enqueued_job_is_reported_once_its_transaction_has_committed(heard):
    with transaction.atomic():
        job = queued()
        assert heard == []

    assert heard == [("job_enqueued", {"using": "default", "jobs": [job]})]


@committing
def test_what_is_rolled_back_is_never_reported(heard):
    with transaction.atomic():
        queued()
        transaction.set_rollback(True)
    with transaction.atomic():
        kept = queued()
        with transaction.atomic():
            queued()
            cancel(Job.objects.filter(pk=kept.pk))
            transaction.set_rollback(True)

    assert heard == [("job_enqueued", {"using": "default", "jobs": [kept]})]


@committing
def test_without_a_transaction_the_report_follows_at_once(heard):
    job = queued()

    assert names(heard) == ["job_enqueued"]
    assert Job.objects.filter(pk=job.pk).exists()


@committing
def test_an_admission_reports_its_claims(heard, frozen):
    _, claim = running()

    assert heard[1] == ("job_admitted", {"using": "default", "claims": [claim]})


@committing
@pytest.mark.parametrize(
    ("event", "state", "died"),
    [
        (Event.SUCCEED, State.COMPLETED, False),
        (Event.RETRY, State.RETRYABLE, False),
        (Event.SNOOZE, State.SCHEDULED, False),
        (Event.INTERRUPT, State.AVAILABLE, False),
        (Event.REVOKE, State.DELETED, False),
        (Event.SKIP, State.ARCHIVED, True),
        (Event.UNDECODABLE, State.UNDECODABLE, True),
    ],
)
def test_the_end_of_a_run_is_reported_with_its_event_and_state(heard, frozen, event, state, died):
    job, claim = running()
    heard.clear()

    ack([(claim, Outcome(event=event, failure=BOOM))])

    facts = {"using": "default", "job_ids": [job.pk], "event": event, "state": state}
    assert heard == [("job_transitioned", facts)] + [("job_died", facts)] * died


@committing
def test_an_exhausted_job_dies_as_archived(heard, frozen):
    ended(Event.RETRY, max_attempts=1)

    assert heard[-1][0] == "job_died"
    assert heard[-1][1]["state"] == State.ARCHIVED


@committing
def test_a_reclaim_reports_what_it_took_back(heard, frozen):
    job, _ = running()
    heard.clear()
    frozen.advance(seconds=31)

    reclaim()

    facts = {"using": "default", "job_ids": [job.pk], "event": Event.LOSE_LEASE, "state": State.RETRYABLE}
    assert heard == [("job_transitioned", facts)]


@committing
def test_a_refused_ack_reports_nothing(heard, frozen):
    job, claim = running()
    cancel(Job.objects.filter(pk=job.pk))
    heard.clear()

    assert ack([(claim, Outcome(event=Event.SUCCEED))]) == [claim]

    assert heard == []


@committing
def test_a_verb_over_a_selection_is_one_report(heard, frozen):
    jobs = [queued() for _ in range(3)]
    heard.clear()

    cancel(Job.objects.all())

    [(name, facts)] = heard
    assert (name, facts["event"], facts["state"]) == ("job_transitioned", Event.CANCEL, State.CANCELLED)
    assert facts["job_ids"] == sorted(job.pk for job in jobs)


@committing
def test_an_eviction_reports_its_count_after_its_transitions(heard, frozen):
    for _ in range(2):
        in_state(State.ARCHIVED)
    heard.clear()
    frozen.advance(days=8)

    evict()

    assert names(heard) == ["job_transitioned", "jobs_evicted"]
    assert heard[1][1] == {"using": "default", "count": 2}


@committing
def test_a_verb_through_a_proxy_reports_as_job(heard, frozen):
    job = in_state(State.ARCHIVED)
    heard.clear()

    ArchivedJob.objects.filter(pk=job.pk).transition(Event.REDRIVE, now_ms=frozen.at_ms)

    assert names(heard) == ["job_transitioned"]


@committing
@pytest.mark.parametrize("name", SIGNALS[:4])
def test_a_receiver_that_raises_changes_nothing_and_is_logged(heard, frozen, caplog, name):
    def broken(**kwargs: Any) -> None:
        raise RuntimeError("receiver is broken")

    signal = getattr(signals, name)
    signal.connect(broken)
    try:
        with caplog.at_level(logging.ERROR):
            job = ended(Event.SKIP)
    finally:
        signal.disconnect(broken)

    assert job.state == State.ARCHIVED
    assert names(heard) == SIGNALS[:4]
    assert "receiver is broken" in caplog.text


@committing
def test_a_receiver_may_enqueue(heard):
    def follow_up(jobs: list[Job], **kwargs: Any) -> None:
        if jobs[0].queue == "first":
            queued(queue="second")

    signals.job_enqueued.connect(follow_up)
    try:
        queued(queue="first")
    finally:
        signals.job_enqueued.disconnect(follow_up)

    assert set(Job.objects.values_list("queue", flat=True)) == {"first", "second"}


@pytest.mark.django_db
def test_a_report_costs_nothing_when_nobody_listens(now, vendor):
    before = len(connection.run_on_commit)

    ended(Event.SKIP)
    evict()

    wakeups = 1 if vendor == "postgresql" else 0
    assert len(connection.run_on_commit) - before == wakeups


@pytest.mark.django_db
def test_listening_costs_no_statement(now):
    with CaptureQueriesContext(connection) as silent:
        ended(Event.SKIP)
    signals.job_died.connect(receiver := lambda **kwargs: None)
    try:
        with CaptureQueriesContext(connection) as listening:
            ended(Event.SKIP)
    finally:
        signals.job_died.disconnect(receiver)

    assert len(listening) == len(silent)
