"""What each outcome makes of a job: state, counters, delay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate_django.core.backoff import crash_delay, failure_delay
from headgate_django.core.outcomes import RUN_EVENTS, Claim, Failure, Outcome, Settlement, settle
from headgate_django.core.states import TRANSITIONS, Event, State

NOW = 1_000_000_000
INT32_MAX = 2**31 - 1
ENDS_A_RUN = {event for state, event in TRANSITIONS if state is State.RUNNING}
CLAIM = Claim(
    id="j1",
    kind="sample:ok",
    schema_version=1,
    queue="default",
    partition_key="",
    rate_class="",
    lease_id="lease",
    fence=7,
    attempt=2,
    crash_attempt=1,
    interruptions=4,
    max_attempts=25,
    scheduled_at_ms=NOW - 5_000,
    timeout_ms=0,
    deadline_ms=0,
    retention_ms=60_000,
    started_at_ms=NOW - 1_000,
    worker_id="w1",
    payload=b"secret",
    headers='{"token": "secret"}',
)


def settled(event: Event, claim: Claim = CLAIM, **options: Any) -> Settlement:
    crash_limit = options.pop("crash_limit", 3)
    return settle(claim, Outcome(event=event, **options), jitter=0.0, crash_limit=crash_limit)


def counters(settlement: Settlement) -> tuple[int, int, int]:
    return settlement.attempt, settlement.crash_attempt, settlement.interruptions


@pytest.mark.parametrize(
    ("event", "state", "counted"),
    [
        (Event.SUCCEED, State.COMPLETED, (2, 1, 4)),
        (Event.RETRY, State.RETRYABLE, (3, 1, 4)),
        (Event.SKIP, State.ARCHIVED, (2, 1, 4)),
        (Event.REVOKE, State.DELETED, (2, 1, 4)),
        (Event.SNOOZE, State.SCHEDULED, (2, 1, 4)),
        (Event.RATE_LIMIT, State.SCHEDULED, (2, 1, 4)),
        (Event.UNDECODABLE, State.UNDECODABLE, (2, 1, 4)),
        (Event.INTERRUPT, State.AVAILABLE, (2, 1, 5)),
        (Event.LOSE_LEASE, State.RETRYABLE, (2, 2, 4)),
        (Event.EXPIRE, State.ARCHIVED, (2, 1, 4)),
        (Event.CANCEL, State.CANCELLED, (2, 1, 4)),
    ],
)
def test_an_outcome_leads_to_its_state_and_raises_its_counter_alone(event, state, counted):
    settlement = settled(event)

    assert (settlement.event, settlement.state) == (event, state)
    assert counters(settlement) == counted


def test_every_event_that_ends_a_run_is_covered_above():
    assert RUN_EVENTS | {Event.LOSE_LEASE, Event.CANCEL} == ENDS_A_RUN


def test_success_without_retention_deletes():
    assert settled(Event.SUCCEED, replace(CLAIM, retention_ms=0)).state is State.DELETED


def test_without_retention_a_dead_job_is_kept():
    assert settled(Event.SKIP, replace(CLAIM, retention_ms=0)).state is State.ARCHIVED


@pytest.mark.parametrize(
    ("failures", "limit", "state"),
    [
        (0, 1, State.ARCHIVED),
        (0, 2, State.RETRYABLE),
        (1, 2, State.ARCHIVED),
        (23, 25, State.RETRYABLE),
        (24, 25, State.ARCHIVED),
        (30, 25, State.ARCHIVED),
    ],
)
def test_a_job_is_archived_at_its_last_allowed_failure(failures, limit, state):
    assert settled(Event.RETRY, replace(CLAIM, attempt=failures, max_attempts=limit)).state is state


def test_giving_up_archives_at_once_and_still_counts_the_failure():
    settlement = settled(Event.RETRY, give_up=True)

    assert (settlement.state, settlement.attempt) == (State.ARCHIVED, 3)


@pytest.mark.parametrize(
    ("crashes", "state"), [(0, State.RETRYABLE), (1, State.RETRYABLE), (2, State.QUARANTINED)]
)
def test_a_job_is_quarantined_at_the_crash_limit(crashes, state):
    assert settled(Event.LOSE_LEASE, replace(CLAIM, crash_attempt=crashes)).state is state


def test_failures_never_quarantine_and_crashes_never_archive():
    failed = settled(Event.RETRY, replace(CLAIM, crash_attempt=50, attempt=24))
    crashed = settled(Event.LOSE_LEASE, replace(CLAIM, attempt=50, crash_attempt=0))

    assert (failed.state, crashed.state) == (State.ARCHIVED, State.RETRYABLE)


def test_a_retry_without_a_delay_backs_off_by_the_failures_so_far():
    assert settled(Event.RETRY).delay_ms == failure_delay(3, 0.0)


def test_a_lost_lease_backs_off_by_the_crashes_so_far():
    assert settled(Event.LOSE_LEASE).delay_ms == crash_delay(2, 0.0)


@pytest.mark.parametrize("event", [Event.RETRY, Event.SNOOZE, Event.RATE_LIMIT])
@pytest.mark.parametrize("delay_ms", [0, 1, 90_000])
def test_an_asked_delay_is_kept_to_the_millisecond(event, delay_ms):
    settlement = settle(CLAIM, Outcome(event=event, delay_ms=delay_ms), jitter=0.999)

    assert settlement.delay_ms == delay_ms


@pytest.mark.parametrize("event", [Event.INTERRUPT, Event.SUCCEED, Event.SKIP, Event.UNDECODABLE])
def test_what_is_not_postponed_keeps_its_place_in_line(event):
    assert settled(event).delay_ms is None


def test_an_interruption_is_free():
    settlement = settled(Event.INTERRUPT, replace(CLAIM, attempt=24, crash_attempt=2))

    assert (settlement.state, settlement.attempt, settlement.crash_attempt) == (State.AVAILABLE, 24, 2)


def test_40000_snoozes_cost_no_attempt():
    claim = CLAIM
    for _ in range(40_000):
        claim = replace(claim, attempt=settled(Event.SNOOZE, claim).attempt)

    failure = settled(Event.RETRY, claim, delay_ms=None)
    assert (failure.attempt, failure.delay_ms) == (3, failure_delay(3, 0.0))


@pytest.mark.parametrize("event", [Event.RETRY, Event.LOSE_LEASE, Event.INTERRUPT])
def test_a_counter_stops_at_the_end_of_its_column(event):
    full = replace(CLAIM, attempt=INT32_MAX, crash_attempt=INT32_MAX, interruptions=INT32_MAX)

    assert counters(settled(event, full)) == (INT32_MAX, INT32_MAX, INT32_MAX)


def test_the_failure_is_handed_on_untouched():
    failure = Failure(error_class="ValueError", message="boom")

    assert settled(Event.RETRY, failure=failure).failure is failure


@pytest.mark.parametrize("event", sorted(set(Event) - ENDS_A_RUN))
def test_an_event_that_ends_no_run_is_refused(event):
    with pytest.raises(AssertionError, match="does not end a run"):
        settled(event)


@settings(max_examples=200, deadline=None)
@given(
    event=st.sampled_from(sorted(RUN_EVENTS | {Event.LOSE_LEASE})),
    attempt=st.integers(0, INT32_MAX),
    crashes=st.integers(0, INT32_MAX),
    retention_ms=st.sampled_from([0, 1_000]),
    jitter=st.floats(0, 1, exclude_max=True),
)
def test_whatever_happens_the_end_is_lawful_and_counters_never_fall(event, attempt, crashes, retention_ms, jitter):
    claim = replace(CLAIM, attempt=attempt, crash_attempt=crashes, retention_ms=retention_ms)
    settlement = settle(claim, Outcome(event=event), jitter=jitter, crash_limit=3)

    row = TRANSITIONS[State.RUNNING, event]
    assert settlement.state in {row.to, row.instead}
    assert attempt <= settlement.attempt <= INT32_MAX
    assert crashes <= settlement.crash_attempt <= INT32_MAX


def test_a_claim_never_shows_payload_or_headers():
    assert "secret" not in repr(CLAIM)
