"""The shop's handlers: one for each way in which a job can go.

Jobs run at least once, so every handler may run again after a crash: each looks at, or writes, rows that make
the second run harmless.
"""

from __future__ import annotations

import asyncio
import os

from django.db import transaction

from example_project.shop import outside
from example_project.shop.models import EmailLog, Invoice, Order
from headgate_django import Context, RateLimited, Retry, Skip, Snooze, job


@job("shop:send_confirmation", queue="critical", priority=10)
def send_confirmation(number: str) -> None:
    """Success: the handler returns."""
    order = Order.objects.get(number=number)
    outside.send_mail(order.email, "Thank you for your order", number)


@job("shop:charge_card", queue="critical", max_attempts=5)
def charge_card(number: str, context: Context) -> None:
    """Transient failure: GatewayDown is retried, later each time. Permanent failure: Skip makes a dead letter."""
    order = Order.objects.get(number=number)
    try:
        outside.charge(order.card, attempt=context.attempt)
    except outside.CardDeclined as error:
        Order.objects.filter(pk=order.pk).update(status=Order.Status.DECLINED)
        raise Skip(str(error)) from error
    with transaction.atomic():  # paid and invoiced, or neither
        Order.objects.filter(pk=order.pk).update(status=Order.Status.PAID)
        # The id is the invoice's own: if this runs twice, the second enqueue finds the first one's job.
        make_invoice.using(id=f"{number}-invoice", partition_key=order.shop).enqueue(number)


@job("shop:make_invoice", queue="reports")
def make_invoice(number: str, context: Context) -> None:
    """Slow work, in a queue of its own. It stops early when the worker asks it to."""
    order = Order.objects.get(number=number)
    for _page in range(4):
        if context.wait(0.05):
            raise Retry(context.cancel_reason)
    Invoice.objects.get_or_create(order=order, defaults={"pdf": outside.render_pdf(order)})


@job("shop:sync_stock", max_attempts=3, backoff=lambda error, attempt: 0.5 * attempt)
def sync_stock(sku: str) -> int:
    """Attempts exhausted: a closed warehouse fails three times, then the job is a dead letter."""
    return outside.stock_level(sku)


@job("shop:import_photo", queue="imports")
def import_photo(path: str) -> None:
    """Poison: a broken file takes the whole process down with it, as a crash in a C library would."""
    if path.endswith("/broken.tiff"):
        os._exit(70)


@job("shop:convert_video", queue="imports", isolated=True, memory_limit="64MB", timeout=10)
def convert_video(path: str) -> None:
    """Dangerous work in a process of its own: what takes too much memory or time fails alone."""
    for _second in range(3):
        outside.decode(path)


@job("shop:import_prices", queue="imports", timeout=120)
def import_prices(supplier: str, context: Context, rows: int = 60) -> None:
    """Long work that tells how far it is: look at its page in the admin."""
    for row in range(rows):
        context.progress(row, rows, f"rows from {supplier}")
        if context.wait(0.1):
            context.raise_if_cancelled()
    context.progress(rows, rows, f"rows from {supplier}")


@job("shop:track_parcel")
def track_parcel(number: str) -> None:
    """Snooze: not an error, only too early. It costs no attempt."""
    order = Order.objects.get(number=number)
    if not outside.parcel_has_arrived(order):
        raise Snooze(1, "the parcel is on its way")
    outside.send_mail(order.email, "Your parcel has arrived", number)


@job("shop:list_on_marketplace")
async def list_on_marketplace(sku: str) -> None:
    """An ``async def`` handler. The far end's 429 is not a failure either."""
    await asyncio.sleep(0.02)
    if outside.marketplace_is_busy():
        raise RateLimited(0.5, "marketplace: 429 Too Many Requests")


@job("shop:send_newsletter", schema_version=2, priority=-10)
def send_newsletter(email: str, *, greeting: str, issue: str) -> None:
    """Changed arguments: version 1 knew only a name. Jobs that were stored before the change still run."""
    EmailLog.objects.get_or_create(to=email, subject=f"{greeting}, here are our news", reference=issue)


@send_newsletter.upcaster(1)
def _greet_by_name(arguments: dict) -> dict:
    return {"email": arguments["email"], "greeting": f"Hello {arguments['name']}", "issue": arguments["issue"]}


@job("shop:send_offer")
def send_offer(email: str, offer: str) -> None:
    """Enqueued with a deadline: after it the offer is worth nothing, and the job is archived instead of run."""
    outside.send_mail(email, "Today only", offer)


@job("shop:ask_for_review")
def ask_for_review(number: str) -> None:
    """Enqueued with a delay: it stays scheduled for three days."""
    order = Order.objects.get(number=number)
    outside.send_mail(order.email, "How do you like it?", number)


@job("shop:send_gift_card")
def send_gift_card(number: str) -> None:
    """Enqueued pending: it waits until somebody in the admin promotes it."""
    order = Order.objects.get(number=number)
    outside.send_mail(order.email, "A gift for you", number)
