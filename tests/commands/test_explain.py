"""``headgate explain`` gives the gate's own answer."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from headgate_django.gate.explain import explain
from headgate_django.models import Queue
from tests.support.builders import queued


def ask(*arguments: str) -> str:
    out = StringIO()
    call_command("headgate", "explain", *arguments, stdout=out)
    return out.getvalue()


def test_the_answer_is_that_of_explain(now):
    job = queued(queue="q")
    Queue.objects.create(name="q", paused=True)

    answer = ask(job.pk)

    assert f"{job.pk}: available, blocked by: paused queue" in answer
    assert str(explain(job).detail) in answer


def test_a_scheduled_job_says_when(now):
    assert "expected in 5.0 s" in ask(queued(delay_ms=5_000).pk)


def test_machines_get_json(now):
    job = queued(queue="q")
    Queue.objects.create(name="q", paused=True)

    answer = json.loads(ask(job.pk, "--json"))

    assert (answer["job"], answer["admissible"], answer["blocked_by"]) == (job.pk, False, "paused queue")


@pytest.mark.parametrize("name", ["nobody", "a\0b"])
def test_an_unknown_id_is_named(now, name):
    with pytest.raises(CommandError, match="there is no job with id"):
        ask(name)
