"""Steps of the runtime loop that only an unlucky moment shows."""

from __future__ import annotations

import pytest

from headgate_django.worker.options import resolve
from headgate_django.worker.orders import Orders
from headgate_django.worker.runtime import Runtime
from tests.support.builders import running
from tests.support.processes import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_run_that_has_ended_is_not_stuck_although_its_time_was_up_when_it_was_looked_at():
    runtime = Runtime(resolve({}, {}), "w1", Orders(1.0), None, "default")
    flight = runtime._flight
    _, claim = running()
    flight.start(claim)
    [run] = flight.running
    wait_until(lambda: len(flight.results) == 1, "it has ended")
    run.cancelled_at, run.raised = 0.0, True  # long ago: a renewal may have taken that long

    runtime._enforce_limits()

    assert (flight.stuck, len(runtime._acks)) == (set(), 1)
    assert flight.close(60)
    runtime._wakeup.close()
