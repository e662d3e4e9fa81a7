"""Quarantine, queues, partitions, workers and duties."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext

from headgate_django.core.states import State
from headgate_django.models import Duty, Partition, Quarantine, Queue, Worker
from headgate_django.models.fleet import STALE_MS
from tests.admin.conftest import BASE, act, confirm, messages_of, operate
from tests.support.builders import in_state, quarantined, queued

pytestmark = pytest.mark.django_db


def test_a_quarantine_shows_a_sample_and_how_many_jobs_it_holds(now, site):
    job = quarantined()
    Quarantine.objects.update(sample_job_id=job.pk)

    text = site.get(f"{BASE}quarantine/{job.fingerprint}/change/").content.decode()

    assert f'href="{BASE}job/{job.pk}/change/"' in text
    assert "Quarantined jobs:" in text
    assert "Waiting jobs:" in text
    assert "Release content" in text


def test_pause_and_resume_go_by_action_and_by_button(now, site):
    Queue.objects.create(name="mail")

    paused = confirm(site, act(site, "queue", "pause", "mail"))
    button = site.get(f"{BASE}queue/mail/change/").context["buttons"]
    again = operate(site, "pause", "mail", screen="queue")

    assert messages_of(paused) == ["1 queue paused."]
    assert [one["operation"].name for one in button] == ["resume"]
    assert messages_of(again) == ["1 skipped: already paused."]
    assert messages_of(operate(site, "resume", "mail", screen="queue")) == ["1 queue resumed."]


def test_pausing_by_the_form_is_the_same_verb(now, site, admin_user):
    Queue.objects.create(name="mail", weight=2)

    site.post(f"{BASE}queue/mail/change/", {"weight": "5", "paused": "on", "max_unfinished_jobs": ""})

    queue = Queue.objects.get()
    assert (queue.paused, queue.weight) == (True, 5)
    assert LogEntry.objects.filter(object_id="mail", change_message="Paused.", user=admin_user).exists()


def test_the_name_of_a_queue_never_changes(now, site):
    Queue.objects.create(name="mail")

    site.post(f"{BASE}queue/mail/change/", {"name": "other", "weight": "5", "max_unfinished_jobs": ""})

    assert list(Queue.objects.values_list("name", "weight")) == [("mail", 5)]


@pytest.mark.parametrize(("field", "value"), [("weight", "0"), ("weight", "x"), ("max_unfinished_jobs", "-1")])
def test_a_policy_out_of_range_is_refused_by_the_form(field, value, now, site):
    Queue.objects.create(name="mail")

    page = site.post(f"{BASE}queue/mail/change/", {"weight": "1", "max_unfinished_jobs": "", field: value})

    assert page.status_code == 200
    assert Queue.objects.get().weight == 1


def test_adding_a_queue_twice_is_refused_and_keeps_the_first(now, site):
    Queue.objects.create(name="mail", weight=7)

    page = site.post(f"{BASE}queue/add/", {"name": "mail", "weight": "1", "max_unfinished_jobs": ""})

    assert page.status_code == 200
    assert Queue.objects.get().weight == 7


def test_queues_show_their_backlog_with_links(now, site):
    Queue.objects.create(name="builders")
    in_state(State.ARCHIVED)
    queued(queue="builders")
    now.advance(seconds=90)

    text = site.get(f"{BASE}queue/").content.decode()

    assert f'href="{BASE}job/?queue=builders&amp;state=available"' in text
    assert f'href="{BASE}archivedjob/?queue=builders"' in text
    assert "1 min 30 s" in text


def test_the_list_of_queues_costs_the_same_for_many(now, site):
    Queue.objects.create(name="q0")
    with CaptureQueriesContext(connection) as one:
        site.get(f"{BASE}queue/")
    for number in range(1, 40):
        Queue.objects.create(name=f"q{number}")
        queued(queue=f"q{number}")

    with CaptureQueriesContext(connection) as many:
        site.get(f"{BASE}queue/")

    assert len(many) <= len(one) + 1  # a clock is read once there is something to date


def test_queues_with_work_and_no_policy_are_named(now, site, client_with):
    queued(queue="bare one")
    Queue.objects.create(name="known")
    queued(queue="known")

    assert site.get(f"{BASE}queue/").context["bare"] == [("bare one", f"{BASE}queue/add/?name=bare+one")]
    assert client_with("view_queue").get(f"{BASE}queue/").context["bare"] == [("bare one", "")]


def test_a_partition_keeps_what_it_is_for(now, site):
    site.post(f"{BASE}partition/add/", {"queue": "mail", "key": "", "weight": "2"})
    row = Partition.objects.get()

    site.post(f"{BASE}partition/{row.pk}/change/", {"queue": "x", "key": "y", "weight": "9"})
    again = site.post(f"{BASE}partition/add/", {"queue": "mail", "key": "", "weight": "3"})

    row.refresh_from_db()
    assert (row.queue, row.key, row.weight) == ("mail", "", 9)
    assert again.status_code == 200


def test_a_worker_is_alive_by_the_clock_of_the_store(now, site):
    for name, age in (("fresh", STALE_MS - 1), ("stale", STALE_MS)):
        Worker.objects.create(
            id=name, hostname="h", pid=1, version="1", queues={"mail": 3}, capacity=4, in_flight=2,
            started_at_ms=1, heartbeat_at_ms=now.at_ms - age,
        )  # fmt: skip

    page = site.get(f"{BASE}worker/")

    assert {worker.id: worker.is_alive for worker in page.context["cl"].result_list} == {
        "fresh": True,
        "stale": False,
    }
    assert "mail:3" in page.content.decode()
    assert site.get(f"{BASE}worker/stale/change/").status_code == 200


def test_a_duty_is_held_while_its_lease_lasts(now, site):
    Duty.objects.create(name="evict", holder="w1", expires_at_ms=now.at_ms + 1)
    Duty.objects.create(name="reclaim", holder="w1", expires_at_ms=now.at_ms)
    Duty.objects.create(name="promote")

    page = site.get(f"{BASE}duty/")

    held = {duty.name: duty.is_held for duty in page.context["cl"].result_list}
    assert held == {"evict": True, "reclaim": False, "promote": False}
