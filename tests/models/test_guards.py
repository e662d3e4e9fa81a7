"""No assignment changes a state or a lease: not by save(), not by a proxy, not by any of the bulk calls."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from django.core import serializers
from django.core.management import call_command
from django.db import IntegrityError, models, transaction
from django.db.models import F, Value

from headgate_django.core.states import INITIAL, STORED, TERMINAL, Event, State
from headgate_django.exceptions import IllegalTransition
from headgate_django.gate.admit import Gate
from headgate_django.lifecycle.cancel import cancel
from headgate_django.lifecycle.redrive import redrive
from headgate_django.models import ArchivedJob, Job, Payload
from tests.support.builders import EnvelopeFactory, in_state, queued

pytestmark = pytest.mark.django_db

CHANGES = [(origin, to) for origin, to in product(sorted(STORED), sorted(STORED)) if origin != to]


def row(job: Job) -> dict[str, Any]:
    return Job.objects.filter(pk=job.pk).values().get()


@pytest.mark.parametrize("state", sorted(STORED))
def test_saving_a_job_as_it_stands_is_allowed(now, state):
    job = in_state(state)
    before = row(job)

    job.save()

    assert row(job) == before


@pytest.mark.parametrize(("origin", "to"), CHANGES)
def test_save_refuses_every_change_of_state_even_a_lawful_one(now, origin, to):
    job = in_state(origin)
    before = row(job)
    job.state = to

    with pytest.raises(IllegalTransition, match=f"cannot save with state '{to}' from {origin}"):
        job.save()

    assert row(job) == before


@pytest.mark.parametrize("fields", [["state"], ["state", "priority"], {"priority", "state"}])
def test_save_of_chosen_fields_refuses_the_state_among_them(now, fields):
    job = queued()
    job.state = State.RUNNING.value

    with pytest.raises(IllegalTransition):
        job.save(update_fields=fields)

    assert row(job)["state"] == State.AVAILABLE


def test_save_of_other_fields_leaves_a_wrong_state_in_memory_alone(now):
    job = queued()
    job.state, job.priority = State.RUNNING.value, 7

    job.save(update_fields=["priority"])

    assert (row(job)["state"], row(job)["priority"]) == (State.AVAILABLE, 7)


@pytest.mark.parametrize("loaded", [Job.objects.defer("state"), Job.objects.only("id", "priority")])
def test_a_deferred_state_is_neither_written_nor_a_way_around_the_guard(now, loaded):
    job = loaded.all().get(pk=queued().pk)
    job.priority = 7
    job.save()
    assert (row(job)["state"], row(job)["priority"]) == (State.AVAILABLE, 7)

    job = loaded.all().get(pk=job.pk)
    job.state = State.COMPLETED.value
    with pytest.raises(IllegalTransition):
        job.save()

    assert row(job)["state"] == State.AVAILABLE


def test_a_proxy_is_no_way_around_the_guard(now):
    dead = ArchivedJob.objects.get(pk=in_state(State.ARCHIVED).pk)
    dead.state = State.AVAILABLE.value

    with pytest.raises(IllegalTransition):
        dead.save()
    with pytest.raises(IllegalTransition):
        ArchivedJob.objects.filter(pk=dead.pk).update(state="available")
    assert redrive(ArchivedJob.objects.filter(pk=dead.pk)) == 1


def test_a_stale_instance_cannot_put_the_state_back(now):
    job = queued()
    stale = Job.objects.get(pk=job.pk)
    cancel(Job.objects.filter(pk=job.pk))

    with pytest.raises(IllegalTransition, match="cannot save with state 'available' from cancelled"):
        stale.save()

    stale.refresh_from_db()
    stale.save()
    assert row(job)["state"] == State.CANCELLED


def test_a_stale_instance_cannot_give_a_job_to_an_old_lease(now):
    job = in_state(State.RUNNING)
    stale = Job.objects.get(pk=job.pk)
    cancel(Job.objects.filter(pk=job.pk))
    redrive(Job.objects.filter(pk=job.pk))
    [newer] = Gate("w2", queues={job.queue: 1}).admit(1)

    with pytest.raises(IllegalTransition, match="cannot save with fence '1' from running"):
        stale.save()

    assert (row(job)["lease_id"], row(job)["fence"]) == (newer.lease_id, newer.fence)


def test_refreshing_one_field_hides_nothing_from_the_guard(now):
    job = queued()
    job.state = State.CANCELLED.value
    job.refresh_from_db(fields=["priority"])

    with pytest.raises(IllegalTransition):
        job.save()

    job.refresh_from_db(fields=["state"])
    job.save()
    assert row(job)["state"] == State.AVAILABLE


@pytest.mark.parametrize("state", sorted(STORED))
def test_a_new_job_is_stored_in_an_initial_state_only(now, state):
    def store(pk: str) -> Job:
        return Job.objects.create(
            id=pk, kind="k", fingerprint="f", state=state, enqueued_at_ms=1, scheduled_at_ms=1
        )

    if state in INITIAL:
        assert store("new").state == state
    else:
        with pytest.raises(IllegalTransition, match=r"from \(new\)"):
            store("new")
        assert not Job.objects.filter(pk="new").exists()


@pytest.mark.parametrize("expression", [F("kind"), Value("running"), F("state")])
def test_an_expression_is_no_way_around_the_guard(now, expression):
    job = queued()
    job.state = expression

    with pytest.raises(IllegalTransition):
        job.save()
    with pytest.raises(IllegalTransition):
        Job.objects.filter(pk=job.pk).update(state=expression)

    assert row(job)["state"] == State.AVAILABLE


def test_update_or_create_and_get_or_create_are_guarded(now):
    job = queued()

    with pytest.raises(IllegalTransition):
        Job.objects.update_or_create(pk=job.pk, defaults={"state": "archived"})
    with pytest.raises(IllegalTransition):
        Job.objects.get_or_create(pk="new", defaults={"state": "running", "kind": "k"})

    assert (Job.objects.count(), row(job)["state"]) == (1, State.AVAILABLE)


def test_bulk_calls_refuse_the_state_before_any_statement(now, django_assert_num_queries):
    job = queued()
    job.state = "running"

    with django_assert_num_queries(0):
        for call in (
            lambda: Job.objects.update(state="running"),
            lambda: Job.objects.all().update(priority=1, state="running"),
            lambda: Job._base_manager.update(state="running"),
            lambda: Job._default_manager.filter(pk=job.pk).update(state="running"),
            lambda: Job.objects.bulk_update([job], ["state"]),
            lambda: Job.objects.bulk_update([job], ["priority", "state"]),
            lambda: Job.objects.bulk_create([Job(kind="k")]),
            lambda: Job.objects.bulk_create([Job(kind="k")], ignore_conflicts=True),
        ):
            with pytest.raises(IllegalTransition):
                call()


def test_bulk_calls_on_other_columns_work(now):
    job = queued()
    job.priority = 3

    assert Job.objects.bulk_update([job], ["priority"]) == 1
    assert Job.objects.filter(pk=job.pk).update(weight=F("weight") + 1) == 1
    assert (row(job)["priority"], row(job)["weight"]) == (3, 2)


def test_a_refusal_leaves_the_surrounding_transaction_usable(now):
    job = queued()
    job.state = "archived"

    with transaction.atomic():
        with pytest.raises(IllegalTransition):
            job.save()
        after = queued()

    assert Job.objects.filter(pk=after.pk).exists()


@pytest.mark.parametrize("state", sorted(STORED - TERMINAL))
def test_a_job_that_has_not_ended_cannot_be_deleted(now, state):
    job = in_state(state)

    for call in (job.delete, Job.objects.filter(pk=job.pk).delete):
        with pytest.raises(IllegalTransition, match=r"cannot delete\(\)"):
            call()

    assert row(job)["state"] == state


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_a_finished_job_is_deleted_with_its_payload(now, state):
    job = in_state(state)

    job.delete()

    assert not Job.objects.exists()
    assert not Payload.objects.exists()


def test_a_fixture_restores_jobs_as_they_were_dumped(now, tmp_path):
    for state in sorted(STORED - {State.RUNNING, State.QUARANTINED}):
        in_state(state)
    before = list(Job.objects.order_by("pk").values())
    dump = tmp_path / "jobs.json"
    call_command("dumpdata", "headgate_django", output=str(dump))
    Job.objects.exclude(state__in=TERMINAL).transition(Event.CANCEL, now_ms=now.at_ms)
    Job.objects.all().delete()

    call_command("loaddata", str(dump), verbosity=0)

    assert list(Job.objects.order_by("pk").values()) == before
    assert Payload.objects.count() == len(before)


def test_a_fixture_with_an_inconsistent_job_is_refused_by_the_database(now, tmp_path):
    data = json.loads(serializers.serialize("json", [queued()]))
    data[0]["fields"]["state"] = "running"  # without a lease
    dump = tmp_path / "jobs.json"
    dump.write_text(json.dumps(data))

    with pytest.raises(IntegrityError), transaction.atomic():
        call_command("loaddata", str(dump), verbosity=0)


def test_the_guard_asks_nothing_for_other_models_and_other_fields(now, django_assert_num_queries):
    job = queued()
    payload = Payload.objects.get(pk=job.pk)

    with django_assert_num_queries(1):
        payload.save(update_fields=["headers"])
    with django_assert_num_queries(1):
        job.save(update_fields=["priority"])


def test_the_managers_of_job_and_its_proxies_all_guard():
    for model in (Job, *Job.__subclasses__()):
        for manager in (model._default_manager, model._base_manager, model.objects):
            assert isinstance(manager.all(), type(Job.objects.all()))
            assert isinstance(manager, models.Manager)


def test_an_envelope_factory_builds_a_job_that_the_guard_accepts(now):
    job = queued(kind=EnvelopeFactory().kind)

    job.full_clean()
    job.save()
