"""Where the jobs of one run stand, as numbers, as a line and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from django.db.models import Count

from example_project.shop.demo.script import Counts
from headgate_django.core.states import State
from headgate_django.models import Job

RESTING = frozenset(State) - {State.AVAILABLE, State.RUNNING, State.RETRYABLE}
"""States in which a job of the demo may be when everything is done."""


def count_jobs(token: str) -> Counts:
    """The run's jobs by kind and state."""
    rows = Job.objects.filter(id__startswith=f"{token}-").order_by().values_list("kind", "state")
    return Counter({(kind, State(state)): jobs for kind, state, jobs in rows.annotate(jobs=Count("id"))})


def line(counts: Counts) -> str:
    """One line: every state that has jobs."""
    states = _by_state(counts)
    return "  ".join(f"{state} {states[state]}" for state in State if states[state])


def table(counts: Counts, expected: Counts) -> Iterator[str]:
    """Lines of a table: state, jobs, and how many there must be."""
    found, wanted = _by_state(counts), _by_state(expected)
    yield f"{'state':<14}{'jobs':>6}{'expected':>10}"
    for state in State:
        if found[state] or wanted[state]:
            yield f"{state:<14}{found[state]:>6}{wanted[state]:>10}"


def differences(counts: Counts, expected: Counts) -> list[str]:
    """What is not as it must be, by kind and state."""
    return [
        f"{kind} {state}: {counts[kind, state]} instead of {expected[kind, state]}"
        for kind, state in sorted({*counts, *expected})
        if counts[kind, state] != expected[kind, state]
    ]


def _by_state(counts: Counts) -> Counter[State]:
    states: Counter[State] = Counter()
    for (_, state), jobs in counts.items():
        states[state] += jobs
    return states
