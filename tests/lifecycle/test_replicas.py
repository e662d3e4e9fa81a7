"""Nothing that decides or writes reads from where the routers send ordinary reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.db import models
from django.test.utils import override_settings
from django.utils.connection import ConnectionDoesNotExist

from headgate_django.core.outcomes import Outcome
from headgate_django.core.states import Event, State
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.ack import ack
from headgate_django.lifecycle.cancel import cancel, discard
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.lifecycle.evict import evict
from headgate_django.lifecycle.promote import promote
from headgate_django.lifecycle.reclaim import claim_of, reclaim
from headgate_django.lifecycle.redrive import redrive
from headgate_django.lifecycle.release import release
from headgate_django.lifecycle.renew import renew
from headgate_django.models import Job, JobQuerySet, Queue
from tests.support.builders import BOOM, EnvelopeFactory, in_state

pytestmark = pytest.mark.django_db


class ReadsElsewhere:
    """A router as projects with a replica have it. Here the replica does not even exist."""

    def db_for_read(self, model: type[models.Model], **hints: object) -> str:
        return "replica"

    def db_for_write(self, model: type[models.Model], **hints: object) -> str:
        return "default"


@pytest.fixture
def replica() -> Iterator[None]:
    with override_settings(DATABASE_ROUTERS=[ReadsElsewhere()]):
        yield


def chosen(job: Job) -> JobQuerySet:
    return Job.objects.filter(pk=job.pk)


def end(event: Event) -> Callable[[Job], object]:
    return lambda job: ack([(claim_of(job), Outcome(event=event, failure=BOOM))])


def save_and_delete(job: Job) -> object:
    job.save()
    return job.delete()


VERBS: dict[str, tuple[State, Callable[[Job], object]]] = {
    "admit": (State.AVAILABLE, lambda job: Gate("w1", queues={"*": 1}).admit(5)),
    "succeed": (State.RUNNING, end(Event.SUCCEED)),
    "retry": (State.RUNNING, end(Event.RETRY)),
    "revoke": (State.RUNNING, end(Event.REVOKE)),
    "renew": (State.RUNNING, lambda job: renew([claim_of(job)], 1_000)),
    "reclaim": (State.RUNNING, lambda job: reclaim()),
    "evict": (State.ARCHIVED, lambda job: evict()),
    "promote": (State.SCHEDULED, lambda job: promote(chosen(job))),
    "cancel": (State.SCHEDULED, lambda job: cancel(chosen(job))),
    "redrive": (State.ARCHIVED, lambda job: redrive(chosen(job), extra_attempts=1)),
    "discard": (State.ARCHIVED, lambda job: discard(chosen(job))),
    "release": (State.QUARANTINED, lambda job: release(job.fingerprint)),
    "transition": (State.ARCHIVED, lambda job: job.transition(Event.REDRIVE, now_ms=1)),
    "delete a selection": (State.ARCHIVED, lambda job: chosen(job).delete()),
    "save and delete": (State.ARCHIVED, save_and_delete),
}


@pytest.mark.parametrize(("state", "verb"), VERBS.values(), ids=VERBS.keys())
def test_a_verb_never_asks_the_replica(now, replica, state, verb):
    with override_settings(DATABASE_ROUTERS=[]):
        job = in_state(state)
    now.advance(days=30)

    assert verb(job) is not False


def test_an_enqueue_never_asks_the_replica(now, replica):
    Queue.objects.create(name="capped", max_unfinished_jobs=5)
    batch = [EnvelopeFactory(), EnvelopeFactory(queue="capped", id="mine", arguments={})]

    assert enqueue(batch)[1].pk == enqueue(batch)[1].pk == "mine"


def test_the_replica_would_have_been_noticed(now, replica):
    with pytest.raises(ConnectionDoesNotExist, match="replica"):
        Job.objects.first()
