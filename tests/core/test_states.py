"""The law as a table: complete, closed, and without a trap."""

from __future__ import annotations

from itertools import product

import pytest

from headgate_django.core.states import (
    INITIAL,
    STORED,
    TERMINAL,
    TRANSITIONS,
    UNFINISHED,
    WAITING,
    Event,
    State,
    Target,
    events_from,
    sources,
    target,
)

# The contract, written down a second time: from, event, to, and after a bar where the condition leads instead.
CONTRACT = """
scheduled   due         available
retryable   due         available
scheduled   promote     available
pending     promote     available
retryable   promote     available
available   admit       running
running     succeed     completed | deleted
running     retry       retryable | archived
running     skip        archived
running     revoke      deleted
running     snooze      scheduled
running     rate_limit  scheduled
running     undecodable undecodable
running     lose_lease  retryable | quarantined
running     interrupt   available
running     expire      archived
running     cancel      cancelled
scheduled   expire      archived
pending     expire      archived
retryable   expire      archived
available   expire      archived
scheduled   cancel      cancelled
pending     cancel      cancelled
retryable   cancel      cancelled
available   cancel      cancelled
scheduled   quarantine  quarantined
pending     quarantine  quarantined
retryable   quarantine  quarantined
available   quarantine  quarantined
available   discard     archived
completed   discard     deleted
archived    discard     deleted
cancelled   discard     deleted
quarantined discard     deleted
undecodable discard     deleted
completed   evict       deleted
archived    evict       deleted
cancelled   evict       deleted
undecodable evict       deleted
archived    redrive     available
cancelled   redrive     available
undecodable redrive     available
quarantined release     available
"""

DIAGRAM = [
    ("scheduled", "available"),
    ("pending", "available"),
    ("available", "running"),
    ("running", "completed"),
    ("running", "retryable"),
    ("running", "scheduled"),
    ("running", "archived"),
    ("running", "quarantined"),
    ("running", "cancelled"),
    ("running", "undecodable"),
    ("completed", "deleted"),
]


def contract() -> dict[tuple[str, str], tuple[str, str | None]]:
    rows = [line.replace("|", "").split() for line in CONTRACT.strip().splitlines()]
    return {(row[0], row[1]): (row[2], row[3] if len(row) > 3 else None) for row in rows}


def ends(row: Target) -> set[State]:
    return {row.to} | ({row.instead} if row.instead else set())


def test_the_table_is_the_contract_and_nothing_else():
    table = {key: (row.to, row.instead) for key, row in TRANSITIONS.items()}

    assert table == contract()


@pytest.mark.parametrize(("origin", "to"), DIAGRAM)
def test_every_edge_of_the_documented_diagram_is_lawful(origin, to):
    assert any(source == origin and to in ends(row) for (source, _), row in TRANSITIONS.items())


def test_every_state_is_initial_or_entered_by_some_event():
    entered = {state for row in TRANSITIONS.values() for state in ends(row)}

    assert entered | INITIAL == set(State)


def test_every_event_can_happen_somewhere():
    assert {event for _, event in TRANSITIONS} == set(Event)


def test_the_sets_of_states_partition_what_is_stored():
    assert set(State) - {State.DELETED} == STORED
    assert UNFINISHED | TERMINAL == STORED
    assert not UNFINISHED & TERMINAL
    assert WAITING | {State.RUNNING} == UNFINISHED
    assert INITIAL <= WAITING


def test_only_an_operator_or_retention_moves_a_terminal_job():
    leaving = {event for state, event in TRANSITIONS if state in TERMINAL}

    assert leaving == {Event.REDRIVE, Event.RELEASE, Event.DISCARD, Event.EVICT}


def test_a_terminal_job_only_becomes_available_again_or_vanishes():
    reached = {state for (origin, _), row in TRANSITIONS.items() if origin in TERMINAL for state in ends(row)}

    assert reached == {State.AVAILABLE, State.DELETED}


def test_nothing_happens_to_a_deleted_job():
    assert events_from(State.DELETED) == ()


def test_retention_never_evicts_a_quarantined_job():
    assert target(State.QUARANTINED, Event.EVICT) is None


@pytest.mark.parametrize("state", sorted(UNFINISHED))
def test_every_unfinished_state_has_a_way_to_an_end(state):
    reached, frontier = set(), {state}
    while frontier:
        reached |= frontier
        frontier = {
            end for (origin, _), row in TRANSITIONS.items() if origin in frontier for end in ends(row)
        } - reached

    assert reached & TERMINAL


@pytest.mark.parametrize("state", sorted(UNFINISHED))
def test_an_operator_can_cancel_whatever_has_not_ended(state):
    assert target(state, Event.CANCEL) is State.CANCELLED


def test_running_is_entered_by_admission_alone():
    assert [key for key, row in TRANSITIONS.items() if State.RUNNING in ends(row)] == [
        (State.AVAILABLE, Event.ADMIT)
    ]


def test_a_condition_is_named_exactly_where_it_decides():
    assert all(bool(row.when) == (row.instead is not None) for row in TRANSITIONS.values())


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_target_sources_and_events_agree_with_the_table(state, event):
    row = TRANSITIONS.get((state, event))

    assert target(state, event) == (row.to if row else None)
    assert target(state, event, condition=True) == ((row.instead or row.to) if row else None)
    assert (state in sources(event)) == (event in events_from(state)) == (row is not None)


def test_the_table_cannot_be_edited_at_run_time():
    with pytest.raises(TypeError):
        TRANSITIONS[State.COMPLETED, Event.ADMIT] = Target(State.RUNNING)  # type: ignore[index]
