"""Admission, as a worker sees it."""

from __future__ import annotations

from headgate_django.core.states import State
from headgate_django.models import Job
from tests.support.builders import queued


def test_an_admitted_job_is_running_under_a_lease(now, admit):
    job = queued()

    [claim] = admit(1)

    job.refresh_from_db()
    assert (job.state, job.fence, job.lease_id) == (State.RUNNING, 1, claim.lease_id)
    assert job.lease_expires_at_ms == now.at_ms + 30_000
    assert Job.objects.count() == 1
