"""``demo --check``: what an operator would do in a browser, over HTTP: look, repair, redrive, see it complete."""

from __future__ import annotations

import html

from django.urls import reverse

from example_project.shop import jobs
from example_project.shop.demo.site import form_with, messages
from example_project.shop.demo.stage import Stage
from example_project.shop.models import Order
from headgate_django import enqueue_many
from headgate_django.core.states import Event, State
from headgate_django.exceptions import Quarantined
from headgate_django.models import ArchivedJob, Attempt, Job, Quarantine

DEAD_LETTERS = "admin:headgate_django_archivedjob_changelist"
QUARANTINE = "admin:headgate_django_quarantine_changelist"


class CheckFailed(Exception):
    """Something is not as it must be."""


def check_over_http(stage: Stage) -> None:
    """Raises CheckFailed naming the first thing that is wrong."""
    _log_in(stage)
    _poison_was_alone(stage)
    _poison_is_refused(stage)
    job = _dead_letter(stage)
    _redrive(stage, job)
    stage.script.expect_redriven(job.kind)
    stage.watch(stage.is_settled)
    stage.say(f"dead letter {job.pk} was redriven in the admin and completed")


def _log_in(stage: Stage) -> None:
    page = stage.browser.login(stage.username, stage.password)
    _expect(reverse("admin:logout") in page, "the admin does not let the printed login in")
    stage.say(f"logged in at {stage.browser.root}{reverse('admin:index')} as {stage.username}")


def _poison_was_alone(stage: Stage) -> None:
    _expect(stage.fleet.deaths == 1, f"{stage.fleet.deaths} processes of the worker died instead of one")
    ours = Job.objects.filter(pk__startswith=f"{stage.script.token}-")
    poison = ours.filter(kind=jobs.import_photo.kind, state=State.QUARANTINED).order_by("-crash_attempt").first()
    _expect(poison is not None and poison.crash_attempt == 3, "the poison was not quarantined by its third crash")
    crashes = Attempt.objects.filter(job=poison, outcome=Event.LOSE_LEASE).order_by("pk")
    alone = [crash.message.startswith("its own process died") for crash in crashes]
    _expect(alone == [False, True, True], "only its first run may share a process")
    harmed = ours.exclude(pk=poison.pk).filter(crash_attempt__gt=1)
    _expect(not harmed.exists(), "another job was blamed more than once")
    beside = ours.exclude(pk=poison.pk).filter(crash_attempt=1).count()
    stage.say(f"the poison took one process down, with {beside} other jobs that ran again; then it died alone")


def _poison_is_refused(stage: Stage) -> None:
    fingerprint = stage.script.poison.fingerprint
    _expect(Quarantine.objects.filter(pk=fingerprint).exists(), "the poison has no quarantine row")
    _expect(fingerprint in stage.browser.get(reverse(QUARANTINE)), "the quarantine page does not list the poison")
    try:
        enqueue_many([stage.script.poison])
    except Quarantined:
        return
    raise CheckFailed("quarantined content was accepted again")


def _dead_letter(stage: Stage) -> Job:
    ours = ArchivedJob.objects.in_state(State.ARCHIVED).filter(pk__startswith=f"{stage.script.token}-")
    page = html.unescape(stage.browser.get(reverse(DEAD_LETTERS)))
    for job in ours:
        _expect(job.pk in page, f"the dead-letter page does not list {job.pk}")
    stage.say(f"the dead-letter page lists all {len(ours)} of this run")
    return next(job for job in ours if job.kind == jobs.charge_card.kind)


def _redrive(stage: Stage, job: Job) -> None:
    # The cause is repaired first: the customers give another card.
    Order.objects.filter(number__startswith=stage.script.token, card=Order.Card.DECLINED).update(
        card=Order.Card.VALID
    )
    page = stage.browser.post(
        reverse(DEAD_LETTERS), {"action": "redrive", "_selected_action": job.pk, "index": "0"}
    )
    try:
        address, fields = form_with("ids", page)
    except LookupError as error:
        raise CheckFailed(f"the admin does not ask for a confirmation: {error}") from error
    page = stage.browser.post(address, fields)
    stage.say(f"redrive: {messages(page) or 'no message'}")


def _expect(claim: bool, problem: str) -> None:
    if not claim:
        raise CheckFailed(problem)
