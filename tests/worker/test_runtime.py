"""Steps of the runtime loop that only an unlucky moment shows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import ProgrammingError

from headgate_django.core.states import State
from headgate_django.worker.options import resolve
from headgate_django.worker.orders import Orders
from headgate_django.worker.runtime import Runtime
from tests.sample.models import Run
from tests.support.builders import running
from tests.support.processes import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    runtime = Runtime(resolve({}, {}), "w1", Orders(1.0), None, "default")
    yield runtime
    assert runtime._flight.close(60)
    runtime._wakeup.close()


def test_a_run_that_has_ended_is_not_stuck_although_its_time_was_up_when_it_was_looked_at(runtime):
    flight = runtime._flight
    _, claim = running()
    flight.start(claim)
    [run] = flight.running
    wait_until(lambda: len(flight.results) == 1, "it has ended")
    run.cancelled_at, run.raised = 0.0, True  # long ago: a renewal may have taken that long

    runtime._enforce_limits()

    assert (flight.stuck, len(runtime._acks)) == (set(), 1)


def test_the_last_progress_of_a_run_is_written_before_its_end(runtime):
    job, claim = running(kind="sample:progresses", arguments={})
    Run.objects.create(name="go on")
    runtime._progress.write([])  # a moment ago
    runtime._flight.start(claim)
    wait_until(lambda: len(runtime._flight.results) == 1, "it has ended")

    runtime._collect()
    runtime._progress.write(runtime._flight.running)
    runtime._acks.flush()

    job.refresh_from_db()
    assert (job.state, job.progress_done, job.progress_note) == (State.COMPLETED, 60, "half")


def test_leases_are_not_renewed_again_and_again_while_only_the_row_cannot_be_written(runtime, monkeypatch):
    def fails(*args, **kwargs) -> None:
        raise ProgrammingError("no such column")

    monkeypatch.setattr(runtime._heartbeat, "beat", fails)

    runtime._keep_alive()

    assert not runtime._pace.beat_due
