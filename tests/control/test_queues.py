"""Pause and resume."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry

from headgate_django.control.queues import pause, resume
from headgate_django.control.report import ALREADY_PAUSED, NOT_PAUSED
from headgate_django.exceptions import InvalidJob
from headgate_django.models import Queue
from tests.control.people import user_with
from tests.support.builders import queued

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(db):
    return user_with("pause_queue")


def test_a_paused_queue_admits_nothing_until_it_is_resumed(now, operator, admit):
    queued(queue="mail")

    pause(["mail"], actor=operator)
    while_paused = admit(1)
    resume(["mail"], actor=operator)

    assert while_paused == []
    assert len(admit(1)) == 1


def test_pausing_a_queue_without_a_policy_creates_one_that_says_nothing_else(now, operator):
    pause(["mail"], actor=operator)

    queue = Queue.objects.get()
    assert (queue.name, queue.paused, queue.weight, queue.max_unfinished_jobs) == ("mail", True, 1, None)


def test_a_pause_keeps_the_rest_of_the_policy(now, operator):
    Queue.objects.create(name="mail", weight=7, max_unfinished_jobs=5)

    pause(["mail"], actor=operator)

    queue = Queue.objects.get()
    assert (queue.paused, queue.weight, queue.max_unfinished_jobs) == (True, 7, 5)


def test_what_is_already_so_is_skipped(now, operator):
    Queue.objects.create(name="paused", paused=True)
    Queue.objects.create(name="open")

    paused = pause(["paused", "open"], actor=operator)
    resumed = resume(["never was", "open"], actor=operator)

    assert (paused.done, paused.skipped) == (1, {ALREADY_PAUSED: 1})
    assert (resumed.done, resumed.skipped) == (1, {NOT_PAUSED: 1})


def test_both_are_recorded(now, operator):
    pause(["mail"], actor=operator)
    resume(["mail"], actor=operator)

    messages = LogEntry.objects.order_by("pk").values_list("object_id", "change_message", "user")
    assert list(messages) == [("mail", "Paused.", operator.pk), ("mail", "Resumed.", operator.pk)]


@pytest.mark.parametrize("name", ["", "x" * 256, "a\0b"])
def test_a_name_that_cannot_be_a_queue_is_refused(name, now, operator):
    with pytest.raises(InvalidJob, match="queue"):
        pause([name], actor=operator)

    assert not Queue.objects.exists()
