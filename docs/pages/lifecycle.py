"""The reference page of the law: its diagram and its tables."""

from __future__ import annotations

from collections.abc import Iterator

from docs.pages.markdown import page, table
from headgate_django.core.states import INITIAL, TERMINAL, TRANSITIONS, Event, State

MEANING = {
    State.PENDING: "Stored, but waits until somebody promotes it.",
    State.SCHEDULED: "Waits for its time: it was enqueued with a delay, or it was snoozed.",
    State.AVAILABLE: "May run as soon as the gate admits it.",
    State.RUNNING: "Claimed by one worker, under a lease.",
    State.RETRYABLE: "Failed or crashed, and waits for its next try.",
    State.COMPLETED: "Succeeded.",
    State.ARCHIVED: "A dead letter: given up, out of attempts, or past its deadline. It can be redriven.",
    State.CANCELLED: "Stopped by an operator. It can be redriven.",
    State.QUARANTINED: "Its content keeps crashing workers. It stays until an operator releases it.",
    State.UNDECODABLE: "This code cannot understand its payload. It can be redriven when other code is deployed.",
    State.DELETED: "The row is gone. Never stored.",
}

CAUSES = {
    Event.DUE: "Its time has come.",
    Event.PROMOTE: "An operator makes it available now.",
    Event.ADMIT: "The gate gives it to a worker. The fence grows by 1, and a lease begins.",
    Event.SUCCEED: "The handler returned.",
    Event.RETRY: "The handler raised. `attempt` grows by 1.",
    Event.SKIP: "The handler gave up with `Skip`. `attempt` stays.",
    Event.REVOKE: "The handler declared the job void with `Revoke`.",
    Event.SNOOZE: "The handler asked to run later with `Snooze`, or no handler is known. Costs nothing.",
    Event.RATE_LIMIT: "The handler passed on a refusal of the far end with `RateLimited`. Costs nothing.",
    Event.UNDECODABLE: "The payload, its version or its arguments do not fit the handler.",
    Event.LOSE_LEASE: "The worker was lost while it ran the job. `crash_attempt` grows by 1. The limit counts "
    "the crashes of this job, or those of all jobs with its content together.",
    Event.INTERRUPT: "A worker that stops gave the run back. `interruptions` grows by 1, and nothing else.",
    Event.EXPIRE: "The deadline has passed.",
    Event.CANCEL: "An operator stops it. A running job loses its lease, so what it acks later is refused.",
    Event.DISCARD: "An operator deletes a finished job; or a policy drops a waiting one.",
    Event.QUARANTINE: "The same content was quarantined while this job waited.",
    Event.REDRIVE: "An operator gives it another chance. All history is kept.",
    Event.RELEASE: "An operator vouches for the content, or its canary succeeded. `crash_attempt` is 0 again.",
    Event.EVICT: "Its retention has passed.",
}


def lifecycle() -> str:
    """docs/reference/lifecycle.md."""
    return page(
        "Lifecycle",
        "headgate_django/core/states.py",
        "A job stands in one state, and only these events move it. The table below is the table that the code "
        "uses: what is not in it is refused, whether by a verb, by `save()`, or by a bulk update.",
        "```mermaid\nstateDiagram-v2\n" + "\n".join(f"    {arrow}" for arrow in _arrows()) + "\n```",
        "## States",
        table(("State", "", "Meaning"), ((f"`{state}`", _role(state), MEANING[state]) for state in State)),
        "## Events",
        table(("Event", "What happens"), ((f"`{event}`", CAUSES[event]) for event in Event)),
        "## Transitions",
        table(("From", "Event", "To"), _transitions()),
        "Leaving `running` ends the lease. Entering a terminal state sets `finalized_at_ms`; redrive and release "
        "clear it.",
    )


def _role(state: State) -> str:
    if state in INITIAL:
        return "initial"
    return "terminal" if state in TERMINAL else ""


def _arrows() -> Iterator[str]:
    yield from (f"[*] --> {state}" for state in State if state in INITIAL)
    labels: dict[tuple[State, State], list[str]] = {}
    for (origin, event), target in TRANSITIONS.items():
        labels.setdefault((origin, target.to), []).append(event)
        if target.instead is not None:
            labels.setdefault((origin, target.instead), []).append(f"{event}, when {target.when}")
    for (origin, to), events in sorted(labels.items(), key=lambda arrow: _order(arrow[0])):
        yield f"{origin} --> {'[*]' if to is State.DELETED else to}: {' / '.join(events)}"


def _order(arrow: tuple[State, State]) -> tuple[int, int]:
    states = list(State)
    return states.index(arrow[0]), states.index(arrow[1])


def _transitions() -> Iterator[tuple[str, ...]]:
    states, events = list(State), list(Event)
    for origin, event in sorted(TRANSITIONS, key=lambda row: (states.index(row[0]), events.index(row[1]))):
        target = TRANSITIONS[origin, event]
        instead = f", or `{target.instead}` when {target.when}" if target.instead is not None else ""
        yield f"`{origin}`", f"`{event}`", f"`{target.to}`{instead}"
