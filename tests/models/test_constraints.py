"""The database itself refuses rows that the law does not know, whatever path they take."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from headgate_django.core.states import STORED, TERMINAL, State
from headgate_django.models import Job
from headgate_django.models.store import execute, marks
from tests.support.builders import in_state, queued

pytestmark = pytest.mark.django_db

COUNTERS = ["attempt", "crash_attempt", "interruptions", "fence", "timeout_ms", "deadline_ms", "retention_ms"]


def set_by_sql(job: Job, **columns: Any) -> None:
    names = ", ".join(f"{name} = %s" for name in columns)
    with transaction.atomic():
        execute("default", f"UPDATE headgate_django_job SET {names} WHERE id = %s", [*columns.values(), job.pk])


def refused(job: Job, constraint: str, **columns: Any) -> None:
    before = Job.objects.filter(pk=job.pk).values().get()
    with pytest.raises(IntegrityError, match=constraint):
        set_by_sql(job, **columns)
    assert Job.objects.filter(pk=job.pk).values().get() == before


@pytest.mark.parametrize("state", ["", "deleted", "AVAILABLE", "done", "running "])
def test_an_unknown_state_is_refused(now, state):
    refused(queued(), "headgate_job_known_state|headgate_job", state=state)


@pytest.mark.parametrize("state", sorted(STORED - {State.RUNNING}))
@pytest.mark.parametrize(
    "lease", [{"lease_id": "x"}, {"lease_expires_at_ms": 1}, {"lease_id": "x", "lease_expires_at_ms": 1}]
)
def test_a_lease_without_a_run_is_refused(now, state, lease):
    refused(in_state(state), "headgate_job_running_has_lease", **lease)


@pytest.mark.parametrize(
    "lease", [{"lease_id": ""}, {"lease_expires_at_ms": None}, {"lease_id": "", "lease_expires_at_ms": None}]
)
def test_a_run_without_a_lease_is_refused(now, lease):
    refused(in_state(State.RUNNING), "headgate_job_running_has_lease", **lease)


@pytest.mark.parametrize("state", sorted(STORED))
def test_a_job_cannot_become_running_without_a_lease(now, state):
    job = in_state(state)
    if state is State.RUNNING:
        return

    refused(job, "headgate_job_(running_has_lease|terminal_is_final)", state="running", finalized_at_ms=None)


@pytest.mark.parametrize("state", sorted(STORED - TERMINAL))
def test_an_end_time_before_the_end_is_refused(now, state):
    refused(in_state(state), "headgate_job_terminal_is_final", finalized_at_ms=now.at_ms)


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_an_end_without_its_time_is_refused(now, state):
    refused(in_state(state), "headgate_job_terminal_is_final", finalized_at_ms=None)


@pytest.mark.parametrize("origin", sorted(STORED - TERMINAL))
@pytest.mark.parametrize("to", sorted(TERMINAL))
def test_no_statement_ends_a_job_by_its_state_alone(now, origin, to):
    refused(in_state(origin), "headgate_job_(running_has_lease|terminal_is_final)", state=to)


@pytest.mark.parametrize("column", COUNTERS)
def test_a_negative_counter_is_refused(now, column):
    refused(queued(), "headgate_job_counters", **{column: -1})


@pytest.mark.parametrize("column", ["weight", "max_attempts", "schema_version"])
def test_a_count_that_starts_at_one_refuses_zero(now, column):
    refused(queued(), "headgate_job_counters", **{column: 0})


@pytest.mark.parametrize("model", ["queue", "partition"])
def test_a_policy_weight_of_zero_is_refused(now, model):
    columns = {"queue": "name, paused, weight", "partition": "queue, key, paused, weight"}[model]
    values = ["q", False, 0] if model == "queue" else ["q", "k", False, 0]

    statement = f"INSERT INTO headgate_django_{model} ({columns}) VALUES {marks(1, len(values))}"
    with pytest.raises(IntegrityError, match=f"headgate_{model}_weight"), transaction.atomic():
        execute("default", statement, values)


def test_a_payload_belongs_to_a_job(now):
    statement = "INSERT INTO headgate_django_payload (job_id, data, headers) VALUES ('nobody', %s, '{}')"
    execute("default", statement, [b""])

    with pytest.raises(IntegrityError), transaction.atomic():
        connection.check_constraints()

    execute("default", "DELETE FROM headgate_django_payload")


def test_two_attempts_of_one_run_are_refused(now):
    job = in_state(State.ARCHIVED)
    attempt = job.attempts.get()
    attempt.pk = None

    with pytest.raises(IntegrityError), transaction.atomic():
        attempt.save(force_insert=True)
