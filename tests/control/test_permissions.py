"""Each verb asks for its own permission, before it reads anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.test.utils import CaptureQueriesContext

from headgate_django.control.cancel import cancel, discard
from headgate_django.control.promote import promote
from headgate_django.control.queues import pause, resume
from headgate_django.control.redrive import redrive
from headgate_django.control.release import release, release_content_of
from headgate_django.control.reveal import reveal
from headgate_django.core.states import State
from headgate_django.exceptions import PermissionRefused
from headgate_django.models import Job, Queue
from tests.control.people import user_with
from tests.support.builders import in_state

pytestmark = pytest.mark.django_db

VERBS: dict[str, tuple[str, State, Callable]] = {
    "redrive": ("redrive_job", State.ARCHIVED, lambda job, actor: redrive([job.pk], actor=actor)),
    "cancel": ("cancel_job", State.AVAILABLE, lambda job, actor: cancel([job.pk], actor=actor)),
    "discard": ("discard_job", State.ARCHIVED, lambda job, actor: discard([job.pk], actor=actor)),
    "promote": ("promote_job", State.SCHEDULED, lambda job, actor: promote([job.pk], actor=actor)),
    "release": (
        "release_quarantine",
        State.QUARANTINED,
        lambda job, actor: release([job.fingerprint], actor=actor),
    ),
    "release a job": (
        "release_quarantine",
        State.QUARANTINED,
        lambda job, actor: release_content_of([job.pk], actor=actor),
    ),
    "pause": ("pause_queue", State.AVAILABLE, lambda job, actor: pause([job.queue], actor=actor)),
    "resume": ("pause_queue", State.AVAILABLE, lambda job, actor: resume([job.queue], actor=actor)),
    "reveal": ("reveal_payload", State.AVAILABLE, lambda job, actor: reveal(job.pk, actor=actor)),
}
EVERY_PERMISSION = {permission for permission, _, _ in VERBS.values()}


@pytest.mark.parametrize("verb", VERBS)
def test_the_right_permission_is_enough(verb, now):
    permission, state, act = VERBS[verb]
    job = in_state(state)

    act(job, user_with(permission))


@pytest.mark.parametrize("verb", VERBS)
def test_every_other_permission_together_is_not_enough(verb, now):
    permission, state, act = VERBS[verb]
    job = in_state(state)
    actor = user_with(*EVERY_PERMISSION - {permission}, "view_job", "view_queue", "change_queue", "change_job")
    actor.get_all_permissions()

    with (
        CaptureQueriesContext(
            connection,
        ) as queries,
        pytest.raises(PermissionRefused, match=permission),
    ):
        act(job, actor)

    assert not queries.captured_queries
    assert Job.objects.get(pk=job.pk).state == state
    assert not Queue.objects.exists()
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("verb", VERBS)
def test_nobody_and_somebody_who_left_are_refused(verb, now):
    permission, state, act = VERBS[verb]
    job = in_state(state)

    for actor in (AnonymousUser(), user_with(permission, is_active=False)):
        with pytest.raises(PermissionRefused):
            act(job, actor)


@pytest.mark.parametrize("verb", VERBS)
def test_trusted_code_needs_no_permission_and_leaves_no_log_entry(verb, now):
    _, state, act = VERBS[verb]
    job = in_state(state)

    act(job, None)

    assert not LogEntry.objects.exists()
