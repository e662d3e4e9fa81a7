"""What the how-to pages recommend, done."""

from __future__ import annotations

import signal

import pytest
from django.core.management import call_command

from headgate_django.models import Job
from tests.sample import jobs


@pytest.mark.django_db(transaction=True)
def test_a_worker_can_run_inside_a_test_and_leaves_its_signals_alone():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    for value in range(20):
        jobs.ok.enqueue(value)
    jobs.asynchronous.enqueue()

    call_command("headgate_worker", burst=True, threads=2)

    assert set(Job.objects.values_list("state", flat=True)) == {"completed"}
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
