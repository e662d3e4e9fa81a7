"""Each handler of the shop does what its docstring says."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import pytest

from example_project.shop import jobs, outside
from example_project.shop.models import EmailLog, Invoice, Order
from headgate_django import enqueue_many
from headgate_django.core import codec
from headgate_django.core.states import State
from headgate_django.lifecycle.redrive import redrive
from headgate_django.models import Job


def test_a_confirmation_is_sent_once_even_if_the_job_runs_twice(now, place_order, work):
    order = place_order()

    first, second = (work(jobs.send_confirmation.enqueue(order.number)) for _ in range(2))

    assert (first.state, second.state) == (State.COMPLETED, State.COMPLETED)
    assert EmailLog.objects.count() == 1


def test_a_flaky_gateway_is_tried_again_until_it_answers(now, place_order, work):
    order = place_order(card=Order.Card.FLAKY)
    job = jobs.charge_card.enqueue(order.number)

    states = []
    for _ in range(3):
        states.append(work(job).state)
        now.advance(seconds=10)

    order.refresh_from_db()
    assert states == [State.RETRYABLE, State.RETRYABLE, State.COMPLETED]
    assert order.status == Order.Status.PAID


def test_a_declined_card_makes_a_dead_letter_at_once(now, place_order, work):
    order = place_order(card=Order.Card.DECLINED)

    job = work(jobs.charge_card.enqueue(order.number))

    order.refresh_from_db()
    assert (job.state, job.attempt, job.error_summary) == (State.ARCHIVED, 0, "the bank declined the card")
    assert order.status == Order.Status.DECLINED


def test_a_redriven_dead_letter_completes_once_the_card_is_valid(now, place_order, work):
    order = place_order(card=Order.Card.DECLINED)
    job = work(jobs.charge_card.enqueue(order.number))
    Order.objects.update(card=Order.Card.VALID)

    redrive(Job.objects.filter(pk=job.pk))

    order.refresh_from_db()
    assert work(job).state == State.COMPLETED


def test_a_payment_that_runs_twice_enqueues_one_invoice(now, place_order, work):
    order = place_order()

    for _ in range(2):
        work(jobs.charge_card.enqueue(order.number))
        now.advance(seconds=1)

    assert Job.objects.filter(kind=jobs.make_invoice.kind).count() == 1


def test_an_invoice_is_made_once(now, place_order, work):
    order = place_order()

    for _ in range(2):
        work(jobs.make_invoice.enqueue(order.number))

    assert bytes(Invoice.objects.get().pdf).startswith(b"%PDF")


def test_a_closed_warehouse_exhausts_its_attempts(now, work):
    job = jobs.sync_stock.enqueue("OLD-1")

    for _ in range(3):
        work(job)
        now.advance(seconds=10)

    assert (job.state, job.attempt) == (State.ARCHIVED, 3)


def test_a_parcel_on_its_way_costs_no_attempt(now, place_order, work):
    order = place_order()
    job = jobs.track_parcel.enqueue(order.number)

    early = work(job).state
    Order.objects.update(created_at=order.created_at - timedelta(hours=1))
    now.advance(seconds=1)

    assert (early, work(job).state, job.attempt) == (State.SCHEDULED, State.COMPLETED, 0)


def test_a_busy_marketplace_costs_no_attempt(now, work, monkeypatch):
    monkeypatch.setattr(outside, "marketplace_is_busy", iter([True, False]).__next__)
    job = jobs.list_on_marketplace.enqueue("SKU-1")

    busy = work(job).state
    now.advance(seconds=1)

    assert (busy, work(job).state, job.attempt) == (State.SCHEDULED, State.COMPLETED, 0)


def test_a_newsletter_stored_before_the_change_is_still_sent(now, work):
    old = replace(
        jobs.send_newsletter.envelope("", greeting="", issue=""),
        schema_version=1,
        payload=codec.encode({"email": "ada@example.com", "name": "Ada", "issue": "7"}),
    )

    [job] = enqueue_many([old])

    assert work(job).state == State.COMPLETED
    assert EmailLog.objects.get().subject == "Hello Ada, here are our news"


def test_a_harmless_video_is_converted(now, work):
    job = work(jobs.convert_video.enqueue("uploads/holiday.mov"))

    assert job.state == State.COMPLETED


def test_prices_are_imported_row_by_row(now, work):
    job = work(jobs.import_prices.enqueue("Acme", rows=2))

    assert job.state == State.COMPLETED


@pytest.mark.process
def test_a_broken_photo_kills_its_process():
    call = (
        "import django; django.setup(); from example_project.shop.jobs import import_photo; "
        "import_photo('good.tiff'); print('good', flush=True); "
        "import_photo('uploads/broken.tiff'); print('survived')"
    )

    process = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, timeout=60)

    assert (process.returncode, process.stdout.split()) == (70, ["good"])
