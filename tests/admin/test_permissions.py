"""Who sees what, and who may do what."""

from __future__ import annotations

import json

import pytest

from headgate_django.core.states import State
from headgate_django.models import Duty, Job, Partition, Queue, Worker
from tests.admin.conftest import BASE, act, operate
from tests.support.builders import in_state, quarantined

pytestmark = pytest.mark.django_db

SCREENS = {
    "job": "view_job",
    "archivedjob": "view_archivedjob",
    "quarantine": "view_quarantine",
    "queue": "view_queue",
    "partition": "view_partition",
    "worker": "view_worker",
    "duty": "view_duty",
}
OPERATIONS = [
    ("job", "redrive", "redrive_job", State.ARCHIVED),
    ("job", "promote", "promote_job", State.SCHEDULED),
    ("job", "cancel", "cancel_job", State.AVAILABLE),
    ("job", "discard", "discard_job", State.ARCHIVED),
    ("job", "release", "release_quarantine", State.QUARANTINED),
    ("archivedjob", "redrive", "redrive_job", State.ARCHIVED),
    ("archivedjob", "discard", "discard_job", State.ARCHIVED),
]
ALL = {permission for _, _, permission, _ in OPERATIONS} | {"pause_queue", "reveal_payload"}


@pytest.mark.parametrize("screen", SCREENS)
def test_a_screen_opens_for_those_who_may_view_it_and_nobody_else(screen, client_with):
    others = set(SCREENS.values()) - {SCREENS[screen]}
    others -= {"view_job"} if screen == "archivedjob" else set()

    assert client_with(SCREENS[screen]).get(f"{BASE}{screen}/").status_code == 200
    assert client_with(*others, *ALL).get(f"{BASE}{screen}/").status_code == 403


def test_who_may_see_all_jobs_may_see_the_dead_ones(client_with, now):
    job = in_state(State.ARCHIVED)
    client = client_with("view_job")

    assert client.get(f"{BASE}archivedjob/").status_code == 200
    assert client.get(f"{BASE}archivedjob/{job.pk}/change/").status_code == 200


@pytest.mark.parametrize(("screen", "verb", "permission", "state"), OPERATIONS)
def test_an_operation_is_offered_and_done_with_its_own_permission_only(
    screen, verb, permission, state, client_with, now
):
    job = in_state(state)
    other = client_with(SCREENS[screen], *ALL - {permission})
    allowed = client_with(SCREENS[screen], permission)

    refused = operate(other, verb, job.pk, screen=screen)
    offered = [name for name, _ in _choices(other.get(f"{BASE}{screen}/"))]
    unconfirmed = other.post(f"{BASE}{screen}/operate/{verb}/", {"ids": json.dumps([job.pk])})

    assert refused.status_code == unconfirmed.status_code == 403
    assert verb not in offered
    assert Job.objects.get(pk=job.pk).state == state
    assert [name for name, _ in _choices(allowed.get(f"{BASE}{screen}/"))] == ["", verb]
    assert operate(allowed, verb, job.pk, screen=screen).status_code == 200
    assert not Job.objects.filter(pk=job.pk, state=state).exists()


def test_an_operation_does_not_open_a_screen_one_may_not_see(client_with, now):
    job = in_state(State.ARCHIVED)

    assert operate(client_with(*ALL), "redrive", job.pk).status_code == 403
    assert Job.objects.get(pk=job.pk).state == State.ARCHIVED


def test_a_forged_action_is_not_run(client_with, now):
    job = in_state(State.ARCHIVED)

    page = act(client_with("view_job", "cancel_job"), "job", "redrive", job.pk)

    assert b"They become available" not in page.content
    assert Job.objects.get(pk=job.pk).state == State.ARCHIVED


def test_releasing_and_pausing_need_their_own_permission(client_with, now):
    content = quarantined().fingerprint
    Queue.objects.create(name="mail")
    reader = client_with("view_quarantine", "view_queue", "change_queue", "change_quarantine")

    assert operate(reader, "release", content, screen="quarantine").status_code == 403
    assert operate(reader, "pause", "mail", screen="queue").status_code == 403
    assert operate(client_with("view_queue", "pause_queue"), "pause", "mail", screen="queue").status_code == 200
    assert Queue.objects.get().paused


def test_a_reader_sees_no_button_anywhere(client_with, now):
    jobs = [in_state(state) for state in (State.ARCHIVED, State.AVAILABLE, State.RUNNING, State.QUARANTINED)]
    Queue.objects.create(name="mail")
    reader = client_with(*SCREENS.values())
    pages = [f"job/{job.pk}/change/" for job in jobs]
    pages += [
        f"quarantine/{jobs[-1].fingerprint}/change/",
        "queue/mail/change/",
        *(f"{name}/" for name in SCREENS),
    ]

    for page in pages:
        text = reader.get(BASE + page).content.decode()
        assert "/operate/" not in text, page
        assert "/reveal/" not in text, page
        assert 'name="action"' not in text, page


@pytest.mark.parametrize("screen", ["job", "archivedjob", "quarantine", "worker", "duty"])
def test_nobody_adds_changes_or_deletes_what_the_store_owns(screen, site, now):
    job = quarantined() if screen == "quarantine" else in_state(State.ARCHIVED)
    Worker.objects.create(id="w", hostname="h", pid=1, version="1", capacity=1, started_at_ms=1, heartbeat_at_ms=1)
    Duty.objects.create(name="w")
    key = {"quarantine": job.fingerprint, "worker": "w", "duty": "w"}.get(screen, job.pk)

    assert site.get(f"{BASE}{screen}/add/").status_code == 403
    assert site.post(f"{BASE}{screen}/add/", {"state": "completed"}).status_code == 403
    assert site.post(f"{BASE}{screen}/{key}/change/", {"state": "completed"}).status_code in (403, 405)
    assert site.post(f"{BASE}{screen}/{key}/delete/", {"post": "yes"}).status_code == 403
    assert site.get(f"{BASE}{screen}/{key}/change/").status_code == 200
    assert "delete_selected" not in dict(_choices(site.get(f"{BASE}{screen}/")))


def test_policies_are_edited_with_the_usual_permissions(client_with, now):
    Queue.objects.create(name="mail")
    Partition.objects.create(queue="mail", key="acme")
    editor = client_with("view_queue", "change_queue", "view_partition", "change_partition")

    editor.post(f"{BASE}queue/mail/change/", {"weight": "4", "max_unfinished_jobs": "9", "paused": "on"})
    editor.post(f"{BASE}partition/{Partition.objects.get().pk}/change/", {"weight": "3", "paused": "on"})

    queue, partition = Queue.objects.get(), Partition.objects.get()
    assert (queue.weight, queue.max_unfinished_jobs, queue.paused) == (4, 9, False)
    assert (partition.weight, partition.paused) == (3, True)


def test_deleting_a_policy_may_end_a_pause_so_it_needs_that_right(client_with, now):
    Queue.objects.create(name="mail", paused=True)

    refused = client_with("view_queue", "delete_queue").post(f"{BASE}queue/mail/delete/", {"post": "yes"})
    done = client_with("view_queue", "delete_queue", "pause_queue").post(
        f"{BASE}queue/mail/delete/", {"post": "yes"}
    )

    assert (refused.status_code, done.status_code) == (403, 302)


def test_who_is_not_staff_comes_no_further_than_the_login(client, django_user_model, now):
    job = in_state(State.ARCHIVED)
    client.force_login(django_user_model.objects.create_user("root", is_superuser=True, is_staff=False))

    for url in (f"{BASE}job/", f"{BASE}job/{job.pk}/change/"):
        assert "/login/" in client.get(url).url
    assert "/login/" in client.post(f"{BASE}job/{job.pk}/reveal/").url
    assert "/login/" in client.post(f"{BASE}job/operate/redrive/", {"ids": "[]"}).url


def _choices(page):
    form = page.context.get("action_form")
    return form.fields["action"].choices if form else []
