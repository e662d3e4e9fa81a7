"""From a selection to a confirmation, to the verb, to a message."""

from __future__ import annotations

import json

import pytest
from django.contrib.admin.models import LogEntry

from headgate_django.admin import confirm as confirm_module
from headgate_django.core.states import State
from headgate_django.models import Job, Quarantine
from tests.admin.conftest import BASE, act, confirm, messages_of, operate
from tests.support.backlog import Backlog, load
from tests.support.builders import in_state, quarantined, queued, running

pytestmark = pytest.mark.django_db

CASES = [
    ("redrive", State.ARCHIVED, State.AVAILABLE, "1 job redriven.", "Redriven."),
    ("promote", State.SCHEDULED, State.AVAILABLE, "1 job made available.", "Promoted."),
    ("cancel", State.RUNNING, State.CANCELLED, "1 job cancelled.", "Cancelled."),
    ("discard", State.ARCHIVED, State.DELETED, "1 job discarded.", "Discarded."),
    ("release", State.QUARANTINED, State.AVAILABLE, "1 content released. 1 job is available again.", "Released."),
]


def state_of(job):
    return Job.objects.filter(pk=job.pk).values_list("state", flat=True).first() or State.DELETED


@pytest.mark.parametrize(("verb", "before", "after", "message", "record"), CASES)
def test_an_action_asks_first_and_acts_when_confirmed(verb, before, after, message, record, now, site, admin_user):
    job = in_state(before)

    page = act(site, "job", verb, job.pk)
    asked = state_of(job)
    done = confirm(site, page)

    assert asked == before
    assert state_of(job) == after
    assert messages_of(done) == [message]
    entry = LogEntry.objects.get(object_id=job.pk)
    assert (entry.user, entry.change_message) == (admin_user, record)


def test_the_confirmation_says_what_will_happen_to_how_many(now, site):
    ids = [in_state(State.ARCHIVED).pk, in_state(State.ARCHIVED, kind="other:kind").pk, in_state(State.RUNNING).pk]

    page = act(site, "job", "redrive", *ids)

    text = page.content.decode()
    assert "They become available and run again." in text
    assert "3 selected" in text
    assert "This applies to <strong>2</strong> jobs." in text
    assert "1 will be skipped: running." in text
    assert "sample:ok" in text
    assert "other:kind" in text


def test_a_message_says_what_was_skipped_and_refused_with_reasons(now, site):
    done, running_, held = in_state(State.ARCHIVED), in_state(State.RUNNING), in_state(State.ARCHIVED)
    cancelled = [in_state(State.COMPLETED) for _ in range(2)]
    Quarantine.objects.create(fingerprint=held.fingerprint, kind="k", reason="r", created_at_ms=1)

    page = operate(site, "redrive", done.pk, running_.pk, held.pk, *(job.pk for job in cancelled))

    assert messages_of(page) == [
        "1 job redriven.",
        "3 skipped: 2 completed, 1 running.",
        "1 refused: content is quarantined, release it first.",
    ]


def test_a_redrive_grants_extra_attempts(now, site):
    job = in_state(State.ARCHIVED)

    page = act(site, "archivedjob", "redrive", job.pk)
    confirm(site, page, extra_attempts="5")

    assert Job.objects.get(pk=job.pk).max_attempts == job.max_attempts + 5


@pytest.mark.parametrize("number", ["-1", "1001", "many"])
def test_a_wrong_number_of_attempts_asks_again(number, now, site):
    job = in_state(State.ARCHIVED)

    page = operate(site, "redrive", job.pk, extra_attempts=number)

    assert page.status_code == 200
    assert page.context["form"].errors["extra_attempts"]
    assert page.context["form"]["ids"].value()
    assert state_of(job) == State.ARCHIVED


def test_all_across_pages_takes_the_filtered_jobs_and_no_other(now, site):
    load(Backlog(count=150, prefix="d", state=State.ARCHIVED, payloads=False))
    other = in_state(State.CANCELLED)

    page = act(site, "job", "redrive", "d1000000000", query="?state=archived", select_across=1)
    confirm(site, page)

    assert not Job.objects.in_state(State.ARCHIVED).exists()
    assert state_of(other) == State.CANCELLED
    assert LogEntry.objects.count() == 150


def test_a_job_that_dies_between_question_and_answer_is_not_swept_in(now, site):
    first = in_state(State.ARCHIVED)

    page = act(site, "archivedjob", "discard", first.pk, select_across=1)
    late = in_state(State.ARCHIVED)
    confirm(site, page)

    assert (state_of(first), state_of(late)) == (State.DELETED, State.ARCHIVED)


def test_one_request_takes_a_bounded_number_and_says_that_there_are_more(now, site, monkeypatch):
    monkeypatch.setattr(confirm_module, "MAX_SELECTED", 10)
    load(Backlog(count=12, prefix="d", state=State.ARCHIVED, payloads=False))

    page = act(site, "archivedjob", "redrive", "d1000000000", select_across=1)
    done = confirm(site, page)

    assert "The selection holds more" in page.content.decode()
    assert messages_of(done) == ["10 jobs redriven.", "There are more. Repeat the action for the rest."]
    assert Job.objects.in_state(State.ARCHIVED).count() == 2


def test_ids_are_as_many_as_one_request_can_post_back(now, site, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 4_000
    for number in range(20):
        in_state(State.ARCHIVED, id=f"{number:02}" + "x" * 200)

    page = act(site, "archivedjob", "redrive", "0" * 202, select_across=1)
    done = confirm(site, page)

    assert done.status_code == 200
    assert 0 < Job.objects.in_state(State.ARCHIVED).count() < 20


def test_two_operators_redrive_each_job_once(now, site):
    job = in_state(State.ARCHIVED)
    first, second = (act(site, "archivedjob", "redrive", job.pk) for _ in range(2))

    confirm(site, first, extra_attempts="1")
    again = confirm(site, second, extra_attempts="1")

    assert messages_of(again) == ["1 skipped: available."]
    assert Job.objects.get(pk=job.pk).max_attempts == job.max_attempts + 1


def test_an_action_on_nothing_says_so(now, site):
    page = site.post(f"{BASE}job/", {"action": "redrive", "index": 0, "_selected_action": "gone"}, follow=True)

    assert messages_of(page) == ["Nothing was selected."]


def test_a_release_of_content_frees_its_jobs(now, site):
    job = quarantined()

    page = act(site, "quarantine", "release", job.fingerprint)
    done = confirm(site, page)

    assert messages_of(done) == ["1 content released. 1 job is available again."]
    assert state_of(job) == State.AVAILABLE
    assert not Quarantine.objects.exists()


def test_a_cancelled_run_loses_its_lease(now, site):
    job, _ = running()

    operate(site, "cancel", job.pk)

    job.refresh_from_db()
    assert (job.state, job.lease_id, job.lease_expires_at_ms) == (State.CANCELLED, "", None)


@pytest.mark.parametrize(
    ("back", "arrives"),
    [
        (f"{BASE}job/?state=archived", f"{BASE}job/?state=archived"),
        ("https://evil.example/", f"{BASE}job/"),
        ("//evil.example/", f"{BASE}job/"),
        ("javascript:alert(1)", f"{BASE}job/"),
        ("", f"{BASE}job/"),
    ],
)
def test_one_comes_back_to_where_one_was_and_never_to_another_site(back, arrives, now, site):
    job = queued()

    response = site.post(
        f"{BASE}job/operate/cancel/", {"ids": json.dumps([job.pk]), "confirmed": "yes", "back": back}
    )

    assert response.url == arrives


def test_the_list_remembers_its_filters(now, site):
    job = in_state(State.ARCHIVED)

    page = act(site, "job", "redrive", job.pk, query="?state=archived&queue=builders")
    done = confirm(site, page)

    assert done.redirect_chain[-1][0] == f"{BASE}job/?state=archived&queue=builders"


@pytest.mark.parametrize("ids", ["", '{"a": 1}', "[1]", '["a\\u0000"]', "not json", json.dumps(["x"] * 10_001)])
def test_ids_that_are_none_are_a_bad_request_or_nothing(ids, now, site):
    response = site.post(f"{BASE}job/operate/cancel/", {"ids": ids, "confirmed": "yes"})

    assert response.status_code == (302 if ids == "" else 400)


def test_an_unknown_operation_is_not_found(now, site):
    assert operate(site, "explode", "x").status_code == 404
    assert operate(site, "cancel", "x", screen="archivedjob").status_code == 404
