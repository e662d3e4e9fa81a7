"""Every situation of the table, on this database and on every form of the SQL that it has."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from headgate_django.core.outcomes import Claim
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.models import Job, Partition, Quarantine, Queue
from tests.gate.scenario import ME, OTHER, Scenario, Waiting
from tests.gate.scenarios import SCENARIOS
from tests.support.builders import EnvelopeFactory

FORMS = [True, False] if os.environ.get("HEADGATE_TEST_DB") == "postgres" else [True]


@pytest.mark.parametrize("portable", FORMS, ids=lambda portable: "portable" if portable else "own form")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.claim)
def test_the_gate_admits_what_it_must(now, scenario: Scenario, portable: bool):
    set_up(scenario, now.at_ms)
    now.advance(milliseconds=scenario.after_ms)

    claims = Gate(ME, queues=scenario.serves, portable=portable).admit(scenario.capacity)

    assert seen(claims, scenario) == scenario.expected
    assert states(scenario) == scenario.states


def set_up(scenario: Scenario, start_ms: int) -> None:
    if scenario.in_flight:
        store(scenario.in_flight, start_ms)
        Gate(OTHER, queues={"*": 1}).admit(10_000)
    store(scenario.waiting, start_ms)
    for model in (Queue, Partition):
        model.objects.bulk_create([policy for policy in scenario.policies if type(policy) is model])


def store(waiting: tuple[Waiting, ...], start_ms: int) -> None:
    for batch in waiting:
        jobs = enqueue([envelope(batch, name, start_ms) for name in batch.names])
        if batch.poisoned:
            Quarantine.objects.bulk_create(
                Quarantine(fingerprint=job.fingerprint, kind=job.kind, reason="test", created_at_ms=start_ms)
                for job in jobs
            )


def envelope(batch: Waiting, name: str, start_ms: int):
    return EnvelopeFactory(
        id=name,
        queue=batch.queue,
        partition_key=batch.partition,
        rate_class=batch.rate_class,
        sticky_worker=batch.sticky,
        priority=batch.priority,
        pending=batch.pending,
        scheduled_at_ms=0 if batch.pending else start_ms + batch.at,
        deadline_ms=start_ms + batch.deadline if batch.deadline else 0,
    )


def seen(claims: list[Claim], scenario: Scenario):
    names = [claim.id for claim in claims]
    if isinstance(scenario.expected, frozenset):
        return frozenset(names)
    if isinstance(scenario.expected, dict):
        return dict(Counter(f"{claim.queue}/{claim.partition_key}" for claim in claims))
    return tuple(names)


def states(scenario: Scenario):
    return dict(Job.objects.filter(id__in=scenario.states).values_list("id", "state"))
