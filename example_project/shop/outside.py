"""The world outside the shop, played by a few lines: a payment gateway, a warehouse, a marketplace, a courier."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from example_project.shop.models import EmailLog, Order

PARCEL_TAKES = timedelta(seconds=3)


class GatewayDown(Exception):
    """The payment gateway does not answer. It will, later."""


class CardDeclined(Exception):
    """The bank says no, and will say no again."""


class WarehouseOffline(Exception):
    """The stock service of this warehouse has been switched off."""


def charge(card: str, *, attempt: int) -> None:
    """Take the money. Raises CardDeclined, or GatewayDown at the first two tries of a flaky card."""
    if card == Order.Card.DECLINED:
        raise CardDeclined("the bank declined the card")
    if card == Order.Card.FLAKY and attempt <= 2:
        raise GatewayDown("payment gateway: 503 Service Unavailable")


def stock_level(sku: str) -> int:
    """How many are left. Raises WarehouseOffline for the products of the closed warehouse."""
    if sku.startswith("OLD-"):
        raise WarehouseOffline(f"no warehouse answers for {sku}")
    return len(sku) * 7


def marketplace_is_busy() -> bool:
    """The marketplace takes calls in even seconds only; in odd ones it answers 429."""
    return timezone.now().second % 2 == 1


def parcel_has_arrived(order: Order) -> bool:
    """Whether the courier has delivered."""
    return timezone.now() - order.created_at >= PARCEL_TAKES


def render_pdf(order: Order) -> bytes:
    """The invoice of an order."""
    return f"%PDF-1.4\n% Invoice {order.number}: {order.amount} EUR\n%%EOF\n".encode()


def send_mail(to: str, subject: str, reference: str) -> None:
    """Send a mail once, even if the job that sends it runs twice."""
    EmailLog.objects.get_or_create(to=to, subject=subject, reference=reference)
