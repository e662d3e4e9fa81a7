"""Payload, headers and logs are on no page but the revealed one, and revealing is a recorded act."""

from __future__ import annotations

import json

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext

from headgate_django.core.states import STORED, State
from headgate_django.models import Attempt, Job
from tests.admin.conftest import BASE, act, confirm
from tests.support.builders import in_state, queued

pytestmark = pytest.mark.django_db

SECRET = "hunter2-5f1d"


@pytest.fixture
def jobs(now):
    jobs = [
        in_state(state, arguments={"token": SECRET, "n": index}, headers={"auth": SECRET})
        for index, state in enumerate(sorted(STORED))
    ]
    assert Attempt.objects.update(logs=f"logged {SECRET}") >= 3
    return jobs


def test_the_secret_is_on_the_revealed_page_and_nowhere_else(jobs, site):
    seen = []
    for screen in ("job", "archivedjob", "quarantine", "queue", "partition", "worker", "duty"):
        seen.append(site.get(f"{BASE}{screen}/"))
        seen.append(site.get(f"{BASE}{screen}/?q={SECRET}"))
    for job in jobs:
        seen.append(site.get(f"{BASE}job/{job.pk}/change/"))
        revealed = site.post(f"{BASE}job/{job.pk}/reveal/").content.decode()
        assert revealed.count(SECRET) == 2 + job.attempts.count()
        seen.append(site.get(f"{BASE}job/{job.pk}/history/"))
    seen.append(site.get(f"{BASE}quarantine/{_fingerprint(State.QUARANTINED)}/change/"))
    for verb in ("redrive", "promote", "cancel", "release", "discard"):
        page = act(site, "job", verb, *(job.pk for job in jobs))
        seen += [page, confirm(site, page)]
    seen.append(site.get("/admin/"))

    for page in seen:
        if page.status_code == 200:
            # A search echoes what was typed in its own box and in the links of the list, and nowhere besides.
            text = (
                page.content.decode()
                .replace(f'value="{SECRET}"', "")
                .replace(f"q%3D{SECRET}", "")
                .replace(f"q={SECRET}", "")
            )
            assert SECRET not in text, page.request["PATH_INFO"]
    for entry in LogEntry.objects.all():
        assert SECRET not in f"{entry.object_repr} {entry.change_message}"


def test_a_search_cannot_confirm_a_secret(jobs, site):
    for prefix in ("", "kind:", "queue:", "partition:", "tag:", "error:"):
        page = site.get(f"{BASE}job/?q={prefix}{SECRET}")
        assert page.context["cl"].result_count == 0


def test_the_page_says_how_large_the_payload_is_without_reading_it(now, site):
    job = queued(arguments={"blob": "x" * 5_000})

    with CaptureQueriesContext(connection) as queries:
        page = site.get(f"{BASE}job/{job.pk}/change/")

    assert f"Redacted ({len(bytes(job.payload.data)):,} bytes)." in page.content.decode()
    [read] = [query["sql"] for query in queries.captured_queries if "headgate_django_payload" in query["sql"]]
    assert read.startswith("SELECT LENGTH(")


def test_revealing_is_a_post_with_its_own_permission_and_an_entry(now, client_with):
    job = queued(arguments={"token": SECRET})
    url = f"{BASE}job/{job.pk}/reveal/"
    reader, revealer = client_with("view_job", "redrive_job"), client_with("view_job", "reveal_payload")

    assert reader.post(url).status_code == 403
    assert revealer.get(url).status_code == 405
    assert not LogEntry.objects.exists()
    page = revealer.post(url)

    assert SECRET in page.content.decode()
    assert LogEntry.objects.get().change_message == "Revealed payload and headers."


def test_revealing_needs_the_screen_too(now, client_with):
    job = queued(arguments={"token": SECRET})

    assert client_with("reveal_payload").post(f"{BASE}job/{job.pk}/reveal/").status_code == 403


def test_the_revealed_page_is_kept_nowhere(now, site):
    job = queued(arguments={"token": SECRET})

    page = site.post(f"{BASE}job/{job.pk}/reveal/")

    assert "no-store" in page["Cache-Control"]
    assert "private" in page["Cache-Control"]


def test_a_dead_letter_can_be_revealed_on_its_own_screen(now, client_with):
    job = in_state(State.ARCHIVED, arguments={"token": SECRET})
    client = client_with("view_archivedjob", "reveal_payload")

    assert SECRET in client.post(f"{BASE}archivedjob/{job.pk}/reveal/").content.decode()


def test_a_forged_confirmation_echoes_no_payload(jobs, site):
    page = site.post(f"{BASE}job/operate/cancel/", {"ids": json.dumps([job.pk for job in jobs])})

    assert SECRET not in page.content.decode()


def _fingerprint(state):
    return Job.objects.in_state(state).values_list("fingerprint", flat=True)[0]
