"""Looking changes nothing, acting needs a token, and whatever is stored is only text."""

from __future__ import annotations

import json
import re
from html import unescape
from urllib.parse import unquote

import pytest
from django.contrib.admin.utils import quote
from django.db import connection
from django.test import Client

from headgate_django.core.outcomes import Failure
from headgate_django.core.states import STORED, Event, State
from headgate_django.models import Attempt, Duty, Job, Partition, Quarantine, Queue, Worker, clock
from tests.admin.conftest import BASE, act, client_of, confirm
from tests.control.people import user_with
from tests.support.builders import ended, in_state, quarantined, queued, running

pytestmark = pytest.mark.django_db

SCRIPT = "<script>alert('x')</script><img src=x onerror=alert(1)>\"'&{{ 7|add:7 }}"
WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE|ALTER|CREATE|DROP|TRUNCATE)\b", re.I)


@pytest.fixture
def everything(now):
    for state in STORED:
        in_state(state)
    Queue.objects.create(name="builders")
    Partition.objects.create(queue="builders", key="acme")
    Worker.objects.create(
        id="w1", hostname="h", pid=1, version="1", capacity=1, started_at_ms=1, heartbeat_at_ms=now.at_ms
    )
    Duty.objects.create(name="evict", holder="w1", expires_at_ms=now.at_ms + 1)


def crawl(client):
    """Every page of the app that links lead to, from the index."""
    waiting, seen = ["/admin/"], {}
    while waiting:
        url = waiting.pop()
        if url in seen:
            continue
        seen[url] = page = client.get(url)
        assert page.status_code in (200, 302), (url, page.status_code)
        for link in map(unescape, re.findall(r'href="([^"]*)"', page.content.decode())):
            target = url.partition("?")[0] + link if link.startswith("?") else link
            if target.startswith(BASE) and target.count("=") < 2:
                waiting.append(target)
    return seen


def test_a_crawler_with_every_right_changes_nothing(everything, admin_user):
    client = client_of(admin_user)
    writes = []

    def record(execute, sql, params, many, context):
        if WRITES.match(sql) and "django_session" not in sql:
            writes.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(record):
        urls = crawl(client)
        for url in urls:
            client.head(url)

    assert len(urls) > 50
    assert writes == []


@pytest.mark.parametrize("method", ["get", "head", "put", "delete", "options"])
def test_an_operation_takes_post_only(method, now, site):
    job = in_state(State.ARCHIVED)

    for url in (
        f"{BASE}job/operate/redrive/?ids=%5B%22{job.pk}%22%5D&confirmed=yes",
        f"{BASE}job/{job.pk}/reveal/",
    ):
        assert getattr(site, method)(url).status_code == 405
    assert Job.objects.get(pk=job.pk).state == State.ARCHIVED


def test_the_page_of_a_job_takes_no_post(now, site):
    job = queued()

    assert site.post(f"{BASE}job/{job.pk}/change/", {"state": "completed"}).status_code == 405


def test_without_a_token_nothing_is_done(now, admin_user):
    job = in_state(State.ARCHIVED)
    client = client_of(admin_user, enforce_csrf_checks=True)
    data = {"ids": json.dumps([job.pk]), "confirmed": "yes"}

    assert client.post(f"{BASE}job/operate/redrive/", data).status_code == 403
    assert client.post(f"{BASE}job/operate/redrive/", data, HTTP_X_HTTP_METHOD_OVERRIDE="GET").status_code == 403
    assert client.post(f"{BASE}job/{job.pk}/reveal/").status_code == 403
    assert (
        client.post(f"{BASE}job/", {"action": "redrive", "index": 0, "_selected_action": job.pk}).status_code
        == 403
    )
    assert Job.objects.get(pk=job.pk).state == State.ARCHIVED


def test_with_its_token_the_page_s_own_form_works(now, admin_user):
    job = in_state(State.ARCHIVED)
    client: Client = client_of(admin_user, enforce_csrf_checks=True)
    page = client.get(f"{BASE}job/{job.pk}/change/")
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.content.decode())[1]

    data = {"ids": json.dumps([job.pk]), "confirmed": "yes", "csrfmiddlewaretoken": token}

    assert client.post(f"{BASE}job/operate/redrive/", data).status_code == 302
    assert Job.objects.get(pk=job.pk).state == State.AVAILABLE


def hostile():
    """Rows with markup in every field that can hold it."""
    failure = Failure(error_class=SCRIPT, message=SCRIPT, traceback=SCRIPT, group="g" * 32)
    places = {
        "queue": SCRIPT,
        "partition_key": SCRIPT,
        "rate_class": SCRIPT,
        "tags": (SCRIPT[:60],),
        "headers": {SCRIPT: SCRIPT},
        "arguments": {SCRIPT: [SCRIPT]},
    }
    dead = ended(Event.SKIP, failure, id=SCRIPT + "1", **places)
    running(id=SCRIPT + "2", worker_id=SCRIPT, **places)
    queued(id=SCRIPT + "3", **places)
    content = quarantined(id=SCRIPT + "4", **{**places, "arguments": {"other": SCRIPT}}).fingerprint
    Quarantine.objects.filter(pk=content).update(reason=SCRIPT, sample_job_id=SCRIPT + "4")
    queued(id="<b>4", queue="<b>q", partition_key="<b>p")  # short enough to be shown in full
    Queue.objects.create(name=SCRIPT, paused=True)
    Partition.objects.create(queue=SCRIPT, key=SCRIPT)
    Worker.objects.create(
        id=SCRIPT, hostname=SCRIPT, pid=1, version=SCRIPT[:60], status=SCRIPT[:16], queues={SCRIPT: 1}, capacity=1,
        started_at_ms=1, heartbeat_at_ms=clock.now_ms("default"), supervisor=SCRIPT, code_version=SCRIPT[:60],
        command=SCRIPT[:16], wakeup=SCRIPT[:8], current_jobs=[{"id": SCRIPT, "kind": SCRIPT, "started_at_ms": 1}],
    )  # fmt: skip
    Duty.objects.create(name=SCRIPT[:64], holder=SCRIPT)
    assert Attempt.objects.get().traceback == SCRIPT
    return dead


def assert_harmless(page):
    text = page.content.decode()
    for tag in ("<script>", "<img src=x", "onerror=alert(1)>", "<b>"):
        assert tag not in text, (
            page.request["PATH_INFO"],
            text[max(0, text.find(tag) - 200) : text.find(tag) + 60],
        )
    assert not re.search(r"""=["']?[^"'>]*<script""", text)
    assert ">14<" not in text
    assert re.findall(r"<[^>]*\sstyle=", text) == []


def test_stored_markup_is_text_on_every_page(now, admin_user):
    hostile()
    client = client_of(user_with_markup(admin_user))

    pages = crawl(client)

    for dead_or_alive in Job.objects.all():
        assert f"{BASE}job/{quote(dead_or_alive.pk)}/change/" in map(unquote, pages)
    for page in pages.values():
        if page.status_code == 200:
            assert_harmless(page)


def test_stored_markup_is_text_in_confirmations_messages_history_and_reveals(now, admin_user):
    dead = hostile()
    client = client_of(user_with_markup(admin_user))
    ids = list(Job.objects.values_list("pk", flat=True))

    page = client.get(f"{BASE}archivedjob/{quote(dead.pk)}/change/")
    revealed = client.post(page.context["reveal_url"])
    assert_harmless(revealed)
    assert "&lt;script&gt;" in revealed.content.decode()
    for screen, verb, keys in (
        ("job", "redrive", ids),
        ("job", "cancel", ids),
        ("queue", "resume", [SCRIPT]),
        ("worker", "quiet", [SCRIPT]),
        ("quarantine", "canary", list(Quarantine.objects.values_list("pk", flat=True))),
        ("quarantine", "release", list(Quarantine.objects.values_list("pk", flat=True))),
        ("job", "discard", ids),
    ):
        asked = act(client, screen, verb, *keys)
        assert_harmless(asked)
        assert_harmless(confirm(client, asked))
    assert_harmless(client.get(f"{BASE}job/?q={SCRIPT}"))
    assert_harmless(client.get("/admin/"))


def test_pages_need_no_inline_script_or_style(everything, site):
    """A strict Content-Security-Policy holds: scripts and styles come from files."""
    job = Job.objects.in_state(State.ARCHIVED).get()
    pages = [site.get(f"{BASE}job/{job.pk}/change/"), site.post(f"{BASE}job/{job.pk}/reveal/")]
    pages += [act(site, "job", "redrive", job.pk), site.get(f"{BASE}job/"), site.get(f"{BASE}queue/")]

    for page in pages:
        text = page.content.decode()
        assert not re.search(r"<script(?![^>]*\bsrc=)", text)
        assert not re.search(r"<style|\sstyle=|\son\w+=", text)


def user_with_markup(user):
    user.first_name = SCRIPT[:100]
    user.save()
    return user


def test_an_operator_s_name_is_text_too(now, site):
    job = queued()
    operator = user_with("cancel_job", first_name=SCRIPT[:100])
    type(operator).objects.filter(pk=operator.pk).update(username=SCRIPT[:140])
    operator.refresh_from_db()
    from headgate_django.control.cancel import cancel

    cancel([job.pk], actor=operator)

    assert_harmless(site.get(f"{BASE}job/{job.pk}/change/"))
