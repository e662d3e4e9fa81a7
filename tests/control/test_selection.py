"""A selection is fixed before the first job is touched."""

from __future__ import annotations

import pytest

from headgate_django.control.cancel import cancel
from headgate_django.control.redrive import redrive
from headgate_django.control.selection import census, select
from headgate_django.core.states import State
from headgate_django.models import ArchivedJob, Job
from headgate_django.signals import job_transitioned
from tests.support.builders import in_state, queued

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
def test_jobs_that_die_meanwhile_are_not_swept_in():
    first, late = in_state(State.ARCHIVED), in_state(State.AVAILABLE, id="late")

    def die(job_ids, **kwargs):
        if first.pk in job_ids:
            cancel([late.pk], actor=None)

    job_transitioned.connect(die, sender=Job)
    try:
        report = redrive(Job.objects.in_state(State.ARCHIVED, State.CANCELLED), actor=None)
    finally:
        job_transitioned.disconnect(die, sender=Job)

    assert report.done == 1
    assert Job.objects.get(pk="late").state == State.CANCELLED


def test_a_queryset_is_taken_up_to_the_limit_in_its_order(now):
    for number in range(4):
        queued(id=f"job{number}")

    selection = select(Job.objects.order_by("-pk"), limit=3)

    assert (selection.ids, selection.more) == (("job3", "job2", "job1"), True)


def test_a_selection_that_fits_is_complete(now):
    queued(id="only")

    selection = select(Job.objects.all(), limit=1)

    assert (selection.ids, selection.more) == (("only",), False)


def test_a_sliced_queryset_and_a_proxy_are_selections(now):
    for number in range(3):
        in_state(State.ARCHIVED, id=f"dead{number}")

    report = redrive(ArchivedJob.objects.order_by("pk")[:2], actor=None)

    assert report.done == 2
    assert Job.objects.get(pk="dead2").state == State.ARCHIVED


def test_one_id_as_a_bare_str_is_an_error_not_a_selection_of_letters(now):
    with pytest.raises(TypeError, match="not one str"):
        redrive("abc", actor=None)


def test_an_empty_selection_does_nothing(now):
    report = redrive([], actor=None)

    assert (report.done, report.skipped, report.refused) == (0, {}, {})


def test_a_census_counts_by_kind_and_state(now):
    ids = [in_state(State.ARCHIVED).pk, queued(kind="sample:other").pk, queued().pk, "never was"]

    found = census(select(ids))

    assert found.kinds == {"sample:ok": 2, "sample:other": 1}
    assert found.states == {State.AVAILABLE: 2, State.ARCHIVED: 1}
    assert found.total == 3
