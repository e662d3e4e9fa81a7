"""Every pair of state and event: the lawful ones by the verb that brings them about, the others refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from headgate_django.core.outcomes import RUN_EVENTS, Outcome
from headgate_django.core.states import STORED, TERMINAL, TRANSITIONS, Event, State, events_from, target
from headgate_django.exceptions import IllegalTransition
from headgate_django.gate.admit import Gate
from headgate_django.gate.due import make_due_available
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.cancel import cancel, discard
from headgate_django.lifecycle.evict import evict
from headgate_django.lifecycle.promote import promote
from headgate_django.lifecycle.reclaim import claim_of, reclaim
from headgate_django.lifecycle.redrive import redrive
from headgate_django.lifecycle.release import release
from headgate_django.models import Job, JobQuerySet
from headgate_django.models.clock import FrozenClock
from headgate_django.models.job import FENCED_EVENTS
from tests.support.builders import BOOM, in_state

PAIRS = list(product(sorted(STORED), Event))
LAWFUL = [pair for pair in PAIRS if pair in TRANSITIONS]
UNLAWFUL = [pair for pair in PAIRS if pair not in TRANSITIONS]


def selection(job: Job) -> JobQuerySet:
    return Job.objects.filter(pk=job.pk)


def row(job: Job) -> dict[str, Any] | None:
    return selection(job).values().first()


def acked(event: Event) -> Callable[[Job, FrozenClock], object]:
    def verb(job: Job, now: FrozenClock) -> object:
        failure = None if event is Event.SUCCEED else BOOM
        return ack([(claim_of(job), Outcome(event=event, delay_ms=60_000, failure=failure))])

    return verb


def moved(event: Event) -> Callable[[Job, FrozenClock], object]:
    return lambda job, now: selection(job).transition(event, now_ms=now.at_ms)


def become_due(job: Job, now: FrozenClock) -> object:
    return make_due_available(now.advance(days=1), "default")


def be_admitted(job: Job, now: FrozenClock) -> object:
    return Gate("w1", queues={job.queue: 1}).admit(100)


def lose_the_lease(job: Job, now: FrozenClock) -> object:
    now.advance(seconds=31)
    return reclaim()


def outlive_retention(job: Job, now: FrozenClock) -> object:
    now.advance(milliseconds=job.retention_ms)
    return evict()


def be_discarded(job: Job, now: FrozenClock) -> object:
    # Operators discard finished jobs only; a saturated partition's incoming ones are discarded by the gate.
    verb = moved(Event.DISCARD) if job.state == State.AVAILABLE else lambda job, now: discard(selection(job))
    return verb(job, now)


VERBS: dict[Event, Callable[[Job, FrozenClock], object]] = {
    Event.DUE: become_due,
    Event.PROMOTE: lambda job, now: promote(selection(job)),
    Event.ADMIT: be_admitted,
    **{event: acked(event) for event in RUN_EVENTS},
    Event.LOSE_LEASE: lose_the_lease,
    Event.EXPIRE: moved(Event.EXPIRE),
    Event.CANCEL: lambda job, now: cancel(selection(job)),
    Event.DISCARD: be_discarded,
    Event.QUARANTINE: moved(Event.QUARANTINE),
    Event.REDRIVE: lambda job, now: redrive(selection(job)),
    Event.RELEASE: lambda job, now: release(job.fingerprint),
    Event.EVICT: outlive_retention,
}


def test_every_event_has_a_verb():
    assert set(VERBS) == set(Event)


@pytest.mark.parametrize(("state", "event"), LAWFUL)
def test_a_lawful_event_leads_where_the_law_says(now, state, event):
    job = in_state(state)

    VERBS[event](job, now)

    stored = row(job)
    assert (stored["state"] if stored else State.DELETED) == target(state, event)


@pytest.mark.parametrize(("state", "event"), LAWFUL)
def test_after_any_event_lease_and_end_fit_the_state(now, state, event):
    job = in_state(state)

    VERBS[event](job, now)

    stored = row(job)
    if stored is None:
        assert target(state, event) is State.DELETED
        return
    running = stored["state"] == State.RUNNING
    assert bool(stored["lease_id"]) == (stored["lease_expires_at_ms"] is not None) == running
    assert (stored["finalized_at_ms"] is not None) == (stored["state"] in TERMINAL)
    assert stored["fence"] == job.fence + running


@pytest.mark.parametrize(("state", "event"), UNLAWFUL)
def test_an_unlawful_event_changes_nothing(now, state, event):
    job = in_state(state)
    before = row(job)

    VERBS[event](job, now)

    assert row(job) == before


@pytest.mark.parametrize(("state", "event"), UNLAWFUL)
def test_an_unlawful_transition_is_refused_and_says_what_is_possible(now, state, event):
    job = in_state(state)
    before = row(job)

    with pytest.raises(IllegalTransition) as caught:
        job.transition(event, now_ms=now.at_ms)

    possible = [name for name in events_from(state) if name not in FENCED_EVENTS]
    assert f"job {job.pk}: cannot {event} from {state}; possible here: {', '.join(possible)}" == str(caught.value)
    assert (caught.value.job_id, caught.value.state, caught.value.event) == (job.pk, state, event)
    assert row(job) == before


@pytest.mark.parametrize(("state", "event"), [pair for pair in LAWFUL if pair[1] not in FENCED_EVENTS])
def test_a_lawful_transition_of_one_job_refreshes_the_instance(now, state, event):
    job = in_state(state)

    job.transition(event, now_ms=now.at_ms)

    stored = row(job)
    assert stored is None or {name: getattr(job, name) for name in stored} == stored


@pytest.mark.parametrize("event", sorted(FENCED_EVENTS))
@pytest.mark.parametrize("state", [State.AVAILABLE, State.RUNNING])
def test_what_is_written_under_a_lease_cannot_be_done_without_one(now, state, event):
    job = in_state(state)
    before = row(job)

    with pytest.raises(IllegalTransition):
        job.transition(event, now_ms=now.at_ms)
    with pytest.raises(IllegalTransition, match="written under a lease"):
        selection(job).transition(event, now_ms=now.at_ms)

    assert row(job) == before


@pytest.mark.parametrize("event", sorted(RUN_EVENTS))
def test_a_late_ack_changes_nothing_in_the_state_that_followed(now, event):
    job = in_state(State.RUNNING)
    claim = claim_of(job)
    cancel(selection(job))
    before = row(job)

    refused = ack([(claim, Outcome(event=event))])

    assert refused == [claim]
    assert row(job) == before


def test_a_transition_of_a_deleted_job_says_that_nothing_can_happen(now):
    job = in_state(State.ARCHIVED)
    discard(selection(job))

    with pytest.raises(IllegalTransition, match="cannot redrive from deleted; nothing can happen here"):
        job.transition(Event.REDRIVE, now_ms=now.at_ms)


def test_one_event_moves_a_job_once_even_if_it_may_happen_again_where_the_job_arrives(now):
    waiting, dead = in_state(State.AVAILABLE), in_state(State.ARCHIVED)

    assert Job.objects.all().transition(Event.DISCARD, now_ms=now.at_ms) == 2

    assert row(waiting)["state"] == State.ARCHIVED
    assert row(dead) is None


def test_history_is_kept_by_redrive_and_by_release(now):
    for state, verb in ((State.ARCHIVED, Event.REDRIVE), (State.QUARANTINED, Event.RELEASE)):
        job = in_state(state)
        before = row(job)

        VERBS[verb](job, now)

        kept = {"attempt", "interruptions", "fence", "error_class", "error_summary", "error_group", "worker_id"}
        after = row(job)
        assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


def test_a_selection_moves_what_it_may_and_leaves_the_rest(now):
    jobs = {state: in_state(state) for state in sorted(STORED)}

    assert cancel(Job.objects.all()) == 5

    states = dict(Job.objects.values_list("pk", "state"))
    assert {state: states[job.pk] for state, job in jobs.items()} == {
        state: state if state in TERMINAL else State.CANCELLED for state in sorted(STORED)
    }


def test_a_conditional_event_leads_to_its_other_end_when_the_condition_holds(now):
    job = in_state(State.RUNNING)

    assert selection(job).transition(Event.EXPIRE, now_ms=now.at_ms, condition=True) == 1
    assert row(job)["state"] == State.ARCHIVED
