"""The world outside the shop, played by a few lines: a gateway, a warehouse, a marketplace, a courier, a codec."""

from __future__ import annotations

import time
from datetime import timedelta

from django.utils import timezone

from example_project.shop.models import EmailLog, Order

PARCEL_TAKES = timedelta(seconds=3)
FRAME_BYTES, MANY_FRAMES = 4 * 1024**2, 100


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


def decode(video: str) -> None:
    """Decode a second of a video. A bomb swells in memory; a torn file never ends."""
    time.sleep(0.02)
    if video.endswith("/bomb.mov"):
        frames = [b"\xff" * FRAME_BYTES for _ in range(MANY_FRAMES)]
        raise RuntimeError(f"{len(frames)} frames: nobody has enforced the memory limit here")
    while video.endswith("/torn.mov"):
        time.sleep(0.02)


def render_pdf(order: Order) -> bytes:
    """The invoice of an order."""
    return f"%PDF-1.4\n% Invoice {order.number}: {order.amount} EUR\n%%EOF\n".encode()


def send_mail(to: str, subject: str, reference: str) -> None:
    """Send a mail once, even if the job that sends it runs twice."""
    EmailLog.objects.get_or_create(to=to, subject=subject, reference=reference)
