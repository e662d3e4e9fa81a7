"""The screens of the fleet: what a worker does, and commands to it."""

from __future__ import annotations

import json
import re

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext

from headgate_django.core.commands import Command
from headgate_django.models import Job, Quarantine, Worker
from tests.admin.conftest import BASE, act, confirm, messages_of, operate
from tests.support.builders import quarantined, running

pytestmark = pytest.mark.django_db


def beat(worker_id="w1", **columns):
    columns = {"hostname": "h", "pid": 7, "version": "1", "queues": {"*": 1}, "capacity": 4, **columns}
    return Worker.objects.beat(worker_id, **columns)


def text_of(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.content.decode()))


def test_the_list_shows_how_each_worker_is(now, site):
    beat(
        supervisor="imports",
        code_version="abc",
        queues={"mail": 3, "default": 1},
        in_flight=1,
        stuck=2,
        recent_polls=128,
        recent_empty_polls=16,
        rss_bytes=50 * 2**20,
    )
    Worker.objects.tell(["w1"], Command.QUIET)
    now.advance(seconds=5)

    page = site.get(f"{BASE}worker/")

    for shown in ("Running", "1 / 4", "25 %", "12 %", "50 MiB", "default:1, mail:3", "h, 7", "abc", "5 s ago"):
        assert shown in text_of(page)
    assert "quiet: waits" in text_of(page)


def test_a_silent_worker_is_shown_as_such_and_left_out_of_the_sums(now, site):
    beat("gone", capacity=100)
    now.advance(minutes=2)
    beat("w1", in_flight=2, queues={"mail": 1})

    text = text_of(site.get(f"{BASE}worker/"))

    assert "1 live, 1 silent. 2 of 4 slots in use (50 %)." in text
    assert "Live workers by queue: mail 1." in text
    assert text.count("Silent") == 1


def test_the_page_links_to_the_jobs_that_run(now, site):
    job, _ = running(worker_id="w1")
    beat(current_jobs=[{"id": job.pk, "kind": job.kind, "started_at_ms": now.at_ms}])
    now.advance(seconds=5)

    page = site.get(f"{BASE}worker/w1/change/")

    assert f'<a href="{BASE}job/{job.pk}/change/">' in page.content.decode()
    assert f"{job.pk} {job.kind}, 5 s" in text_of(page)


def test_the_list_does_not_read_what_runs(now, site):
    beat(current_jobs=[{"id": "j", "kind": "k", "started_at_ms": 1}])

    with CaptureQueriesContext(connection) as queries:
        site.get(f"{BASE}worker/")

    assert "current_jobs" not in " ".join(query["sql"] for query in queries.captured_queries)


def test_the_number_of_statements_does_not_depend_on_the_number_of_workers(now, site):
    beat()
    site.get(f"{BASE}worker/")
    with CaptureQueriesContext(connection) as one:
        site.get(f"{BASE}worker/")
    for number in range(30):
        beat(f"other{number}")

    with CaptureQueriesContext(connection) as many:
        site.get(f"{BASE}worker/")

    assert len(one) == len(many)


@pytest.mark.parametrize("order", Command)
def test_a_command_asks_first_and_waits_in_the_row_when_confirmed(order, now, site, admin_user):
    beat()

    page = act(site, "worker", order, "w1")
    asked = Worker.objects.get().command
    done = confirm(site, page)

    assert (asked, Worker.objects.get().command) == ("", order)
    assert messages_of(done) == ["1 worker told."]
    entry = LogEntry.objects.get(object_id="w1")
    assert (entry.user, entry.change_message) == (admin_user, f"Told to {order}.")


def test_the_page_of_a_worker_has_a_button_for_each_command(now, site):
    beat()

    buttons = site.get(f"{BASE}worker/w1/change/").context["buttons"]

    assert {button["operation"].name for button in buttons} == set(Command)
    assert site.post(buttons[0]["url"], {"ids": buttons[0]["ids"], "confirmed": "yes"}).status_code == 302
    assert Worker.objects.get().command == buttons[0]["operation"].name


def test_a_silent_worker_is_not_told(now, site):
    beat()
    now.advance(minutes=2)

    page = operate(site, "quiet", "w1", "gone", screen="worker")

    assert messages_of(page) == ["2 skipped: 1 no longer there, 1 not heard of lately."]
    assert Worker.objects.get().command == ""


@pytest.mark.parametrize("order", Command)
def test_a_command_needs_its_own_permission(order, now, client_with):
    beat()
    reader = client_with("view_worker", "pause_queue", "cancel_job")
    unseeing = client_with("command_worker")

    refused = [operate(one, order, "w1", screen="worker").status_code for one in (reader, unseeing)]
    untouched = Worker.objects.get().command
    done = operate(client_with("view_worker", "command_worker"), order, "w1", screen="worker")

    assert (refused, untouched) == ([403, 403], "")
    assert (done.status_code, Worker.objects.get().command) == (200, order)
    assert "/operate/" not in reader.get(f"{BASE}worker/w1/change/").content.decode()


@pytest.mark.parametrize("order", Command)
def test_no_command_is_given_by_looking(order, now, site):
    beat()

    page = site.get(f"{BASE}worker/operate/{order}/?ids=%5B%22w1%22%5D&confirmed=yes")

    assert page.status_code == 405
    assert Worker.objects.get().command == ""


def test_a_canary_of_quarantined_content_is_sent_and_shown(now, site):
    job = quarantined()

    page = act(site, "quarantine", "canary", job.fingerprint)
    done = confirm(site, page)

    assert messages_of(done) == ["1 canary sent. 1 job is available again."]
    assert Quarantine.objects.get().canary_job_id == job.pk
    assert Job.objects.get(pk=job.pk).state == "available"
    shown = site.get(f"{BASE}quarantine/{job.fingerprint}/change/").content.decode()
    assert re.search(rf'canary.*?<a href="{BASE}job/{job.pk}/change/">', shown, re.DOTALL)


def test_a_second_canary_is_refused(now, site):
    job = quarantined()
    operate(site, "canary", job.fingerprint, screen="quarantine")

    page = operate(site, "canary", job.fingerprint, screen="quarantine")

    assert messages_of(page) == ["1 refused: a canary is out already."]


def test_a_canary_needs_the_right_to_release(now, client_with):
    job = quarantined()
    url = f"{BASE}quarantine/operate/canary/"
    data = {"ids": json.dumps([job.fingerprint]), "confirmed": "yes"}

    assert client_with("view_quarantine", "redrive_job").post(url, data).status_code == 403
    assert client_with("view_quarantine", "release_quarantine").post(url, data).status_code == 302
