"""What operators type to find jobs."""

from __future__ import annotations

import pytest
from django.db.models import Q

from headgate_django.control import window as window_module
from headgate_django.control.search import find
from headgate_django.control.window import window
from headgate_django.core.outcomes import Failure
from headgate_django.core.states import Event, State
from headgate_django.models import Job
from tests.support.builders import ended, in_state, queued

pytestmark = pytest.mark.django_db


def search(text):
    found = find(Job.objects.all(), text, lambda: Q())
    return None if found is None else sorted(found.values_list("pk", flat=True))


@pytest.fixture
def jobs(now):
    queued(id="01K", kind="email:welcome", queue="mail", partition_key="acme corp", tags=("vip", "a b"))
    queued(id="order: 7", kind="email:bye", queue="two words", tags=("vip2",))
    ended(Event.SKIP, Failure(error_class="pkg.Timeout", message="gateway said 503", group="f" * 32), id="dead")


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("01K", ["01K"]),
        ("  01K ", ["01K"]),
        ("order: 7", ["order: 7"]),
        ("kind:email:welcome", ["01K"]),
        ('queue:"two words"', ["order: 7"]),
        ("queue:'two words'", ["order: 7"]),
        ('partition:"acme corp"', ["01K"]),
        ("tag:vip", ["01K"]),
        ('tag:"a b"', ["01K"]),
        ("tag:vi", []),
        ("tag:%", []),
        ("error:timeout", ["dead"]),
        ("error:503", ["dead"]),
        ("error:" + "f" * 32, ["dead"]),
        ("kind:email:welcome tag:vip queue:mail", ["01K"]),
        ("kind:email:welcome tag:vip2", []),
        ("kind:email", []),
        ("kind:' OR 1=1 --", None),
    ],
)
def test_a_search_finds(text, ids, jobs):
    assert search(text) == ids


@pytest.mark.parametrize(
    "text", ["01", "email:welcome", "whatever", "kind:", "payload:x", "kind:a whatever", ":", '"']
)
def test_what_is_neither_an_id_nor_prefixed_is_not_searched(text, jobs):
    assert search(text) is None


def test_the_payload_cannot_be_searched(jobs):
    queued(id="private", arguments={"token": "hunter2"}, headers={"auth": "hunter2"})

    assert search("hunter2") is None
    for prefix in ("kind", "queue", "partition", "tag", "error"):
        assert search(f"{prefix}:hunter2") == []


def test_the_window_holds_the_newest_jobs(now, monkeypatch):
    monkeypatch.setattr(window_module, "SIZE", 2)
    for number in range(4):
        queued(id=f"job{number}")

    found = Job.objects.filter(window("default")).order_by("pk")

    assert list(found.values_list("pk", flat=True)) == ["job2", "job3"]


def test_the_window_of_a_terminal_state_holds_the_last_to_enter_it(now, monkeypatch):
    monkeypatch.setattr(window_module, "SIZE", 2)
    for name in ("c", "b", "a"):
        in_state(State.ARCHIVED, id=name)
        now.advance(seconds=1)
    queued(id="z")

    found = Job.objects.in_state(State.ARCHIVED).filter(window("default", State.ARCHIVED))

    assert set(found.values_list("pk", flat=True)) == {"a", "b"}


def test_there_is_no_window_while_everything_fits(now, monkeypatch):
    monkeypatch.setattr(window_module, "SIZE", 2)
    queued()
    queued()

    assert window("default") == Q()
