"""The page of one job."""

from __future__ import annotations

import pytest
from django.contrib.admin.utils import quote

from headgate_django.control.redrive import redrive
from headgate_django.control.verb import verbs_from
from headgate_django.core.outcomes import Failure
from headgate_django.core.states import STORED, Event, State
from headgate_django.models import Job, Queue
from tests.admin.conftest import BASE
from tests.control.people import user_with
from tests.support.builders import ended, in_state, quarantined, queued, running

pytestmark = pytest.mark.django_db


def page_of(client, job, screen="job"):
    return client.get(f"{BASE}{screen}/{quote(job.pk)}/change/")


def test_it_tells_the_story_with_who_did_what(now, site):
    operator = user_with("redrive_job")
    job = ended(
        Event.SKIP, Failure(error_class="pkg.Error", message="the far end hung up", traceback="Traceback: x")
    )
    redrive([job.pk], actor=operator, extra_attempts=2)

    text = page_of(site, job).content.decode()

    for part in ("Enqueued", "run 1 on w1", "Redriven with 2 extra attempts.", operator.get_username()):
        assert part in text
    assert "2026-01-01 00:00:00" in text


def test_each_run_shows_its_outcome_error_message_and_traceback(now, site):
    job = ended(Event.RETRY, Failure(error_class="pkg.Error", message="hung up", traceback="Traceback: line 1"))

    text = page_of(site, job).content.decode()

    assert "Run 1" in text
    assert '<span class="headgate-outcome">retry</span>' in text
    assert "<strong>pkg.Error</strong>" in text
    assert '<pre class="headgate-text">hung up</pre>' in text
    assert '<pre class="headgate-text">Traceback: line 1</pre>' in text


def test_a_huge_traceback_is_cut_and_says_so(now, site):
    job = ended(Event.SKIP, Failure(error_class="E", message="m", traceback="x" * 300_000))

    page = page_of(site, job)

    assert "Cut; the traceback has 300000 characters." in page.content.decode()
    assert len(page.content) < 60_000


def test_it_says_why_the_job_is_not_running(now, site):
    Queue.objects.create(name="mail", paused=True)
    paused, scheduled = queued(queue="mail"), queued(delay_ms=90_000)
    job, _ = running()

    assert "queue mail is paused" in page_of(site, paused).content.decode()
    assert "due in 90.0 s" in page_of(site, scheduled).content.decode()
    assert "It is running." in page_of(site, job).content.decode()
    assert 'id="why"' not in page_of(site, in_state(State.COMPLETED)).content.decode()


@pytest.mark.parametrize("state", sorted(STORED))
def test_its_buttons_are_what_the_law_allows(state, now, site):
    page = page_of(site, in_state(State(state)))

    offered = [button["operation"].name for button in page.context["buttons"]]
    assert sorted(offered) == sorted(verb.name for verb in verbs_from(State(state)))


@pytest.mark.parametrize("screen", ["job", "archivedjob"])
def test_a_button_asks_and_then_acts(screen, now, site):
    job = in_state(State.ARCHIVED)
    button = next(
        one for one in page_of(site, job, screen).context["buttons"] if one["operation"].name == "redrive"
    )

    asked = site.post(button["url"], {"ids": button["ids"], "back": button["back"]})
    still = Job.objects.get(pk=job.pk).state
    done = site.post(
        button["url"], {"ids": button["ids"], "back": button["back"], "confirmed": "yes"}, follow=True
    )

    assert b"Redrive selected jobs" in asked.content
    assert still == State.ARCHIVED
    assert Job.objects.get(pk=job.pk).state == State.AVAILABLE
    assert done.status_code == 200
    assert b"1 job redriven." in done.content


def test_a_discarded_job_leads_back_to_the_list(now, site):
    job = in_state(State.ARCHIVED)
    button = next(one for one in page_of(site, job).context["buttons"] if one["operation"].name == "discard")

    done = site.post(button["url"], {"ids": button["ids"], "back": button["back"], "confirmed": "yes"})

    assert done.url == f"{BASE}job/"


def test_it_links_to_the_same_error_and_to_the_quarantine(now, site):
    dead, poison = in_state(State.ARCHIVED), quarantined()

    assert f"{BASE}archivedjob/?error_group={dead.error_group}" in page_of(site, dead).content.decode()
    assert f"{BASE}quarantine/{poison.fingerprint}/change/" in page_of(site, poison).content.decode()


@pytest.mark.parametrize(
    "job_id", ["a/b c?d=e&f#g", 'say "hi" <b>', "x" * 255, "ü-Привет", "a_5Fb", "%41", "../x"]
)
def test_any_id_has_a_page_and_buttons_that_work(job_id, now, site):
    job = in_state(State.ARCHIVED, id=job_id)

    page = page_of(site, job)
    revealed = site.post(page.context["reveal_url"])
    button = next(one for one in page.context["buttons"] if one["operation"].name == "redrive")
    done = site.post(
        button["url"], {"ids": button["ids"], "back": button["back"], "confirmed": "yes"}, follow=True
    )

    assert page.status_code == revealed.status_code == done.status_code == 200
    assert Job.objects.get(pk=job_id).state == State.AVAILABLE


def test_a_job_that_is_gone_leads_back_with_a_message(now, site):
    assert site.get(f"{BASE}job/never/change/", follow=True).redirect_chain
    assert site.get(f"{BASE}job/a%00b/change/", follow=True).status_code == 200
    assert site.post(f"{BASE}job/never/reveal/").status_code == 404


def test_the_history_of_a_dead_letter_is_that_of_the_job(now, site):
    job = in_state(State.ARCHIVED)
    redrive([job.pk], actor=user_with("redrive_job"))
    again = in_state(State.ARCHIVED)

    assert b"Redriven." in site.get(f"{BASE}job/{job.pk}/history/").content
    assert site.get(f"{BASE}archivedjob/{again.pk}/history/").url == f"{BASE}job/{again.pk}/history/"
