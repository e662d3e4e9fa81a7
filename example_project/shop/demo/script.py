"""The script: which jobs the demo enqueues, and in which state each of them must end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from django.db import transaction

from example_project.shop import jobs
from example_project.shop.models import Order
from headgate_django import enqueue_many
from headgate_django.control.cancel import cancel
from headgate_django.core import codec
from headgate_django.core.envelope import Envelope
from headgate_django.core.states import UNFINISHED, State
from headgate_django.models import Job

Counts = Counter[tuple[str, State]]
"""How many jobs there are of each kind in each state."""

SHOPS = {"books": 40, "garden": 14, "toys": 6}
"""Orders by shop: one loud tenant and two quiet ones."""
FLAKY, DECLINED = 8, 6


@dataclass(frozen=True)
class Scene:
    """Jobs of one kind that all end alike."""

    envelopes: list[Envelope]
    ends: State


class Script:
    """One run of the demo. Its ``token`` begins the id of every order and job, so that runs do not collide."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.expected: Counts = Counter()
        self._numbers = count(1)

    def clear_the_stage(self) -> int:
        """Cancel the imports that an interrupted run has left, so that their poison does not disturb this one."""
        left = Job.objects.filter(queue=jobs.import_photo.options.queue, state__in=UNFINISHED)
        return cancel(left, actor=None).done

    def enqueue(self) -> int:
        """Store the orders and all their jobs in one transaction; how many jobs."""
        with transaction.atomic():
            orders = self._place_orders()
            envelopes = []
            for scene in self._scenes(orders):
                envelopes += scene.envelopes
                for envelope in scene.envelopes:
                    self.expected[envelope.kind, scene.ends] += 1
            enqueue_many(envelopes)
        # Each paid order enqueues its invoice.
        self.expected[jobs.make_invoice.kind, State.COMPLETED] = len(orders) - DECLINED
        return len(envelopes)

    @property
    def poison(self) -> Envelope:
        """The job that no process survives."""
        return jobs.import_photo.envelope(f"uploads/{self.token}/broken.tiff")

    def expect_redriven(self, kind: str) -> None:
        """One dead letter of ``kind`` has been given another chance, which it took."""
        self.expected[kind, State.ARCHIVED] -= 1
        self.expected[kind, State.COMPLETED] += 1
        if kind == jobs.charge_card.kind:
            self.expected[jobs.make_invoice.kind, State.COMPLETED] += 1

    def _place_orders(self) -> list[Order]:
        shops = [shop for shop, orders in SHOPS.items() for _ in range(orders)]
        cards = [Order.Card.DECLINED] * DECLINED + [Order.Card.FLAKY] * FLAKY
        cards += [Order.Card.VALID] * (len(shops) - len(cards))
        return Order.objects.bulk_create(
            Order(
                number=f"{self.token}-{number:03}",
                shop=shop,
                email=f"customer{number}@example.com",
                amount=10 + number,
                card=card,
            )
            for number, (shop, card) in enumerate(zip(shops, cards, strict=True), start=1)
        )

    def _scenes(self, orders: list[Order]) -> Iterator[Scene]:
        yield from self._order_scenes(orders)
        yield from self._catalogue_scenes()
        yield from self._upload_scenes()
        yield from self._mail_scenes()

    def _order_scenes(self, orders: list[Order]) -> Iterator[Scene]:
        declined = [order for order in orders if order.card == Order.Card.DECLINED]
        paid = [order for order in orders if order.card != Order.Card.DECLINED]
        yield Scene(self._per_order(jobs.send_confirmation, orders), State.COMPLETED)
        yield Scene(self._per_order(jobs.charge_card, paid), State.COMPLETED)
        yield Scene(self._per_order(jobs.charge_card, declined), State.ARCHIVED)
        yield Scene(self._per_order(jobs.track_parcel, paid[:10]), State.COMPLETED)
        yield Scene(self._per_order(jobs.ask_for_review.using(delay=3 * 24 * 3600), paid[:12]), State.SCHEDULED)
        yield Scene(self._per_order(jobs.send_gift_card.using(pending=True), paid[:3]), State.PENDING)

    def _catalogue_scenes(self) -> Iterator[Scene]:
        skus = [f"SKU-{number}" for number in range(40)]
        yield Scene(self._each(jobs.sync_stock, skus), State.COMPLETED)
        yield Scene(self._each(jobs.sync_stock, ["OLD-1", "OLD-2", "OLD-3"]), State.ARCHIVED)
        yield Scene(self._each(jobs.list_on_marketplace, skus[:30]), State.COMPLETED)
        yield Scene(self._each(jobs.import_prices, ["Acme", "Globex"]), State.COMPLETED)

    def _upload_scenes(self) -> Iterator[Scene]:
        folder = f"uploads/{self.token}"
        photos = [f"{folder}/{number}.tiff" for number in range(20)]
        yield Scene(self._each(jobs.import_photo, photos), State.COMPLETED)
        # The second upload of the broken file waits: it goes into quarantine with the first one, and never runs.
        again = replace(self.poison, delay_ms=60_000)
        yield Scene([self._named(self.poison), self._named(again)], State.QUARANTINED)
        videos = [f"{folder}/{number}.mov" for number in range(6)]
        yield Scene(self._each(jobs.convert_video, videos), State.COMPLETED)
        once = jobs.convert_video.using(max_attempts=1, timeout=3)
        yield Scene(self._each(once, [f"{folder}/bomb.mov", f"{folder}/torn.mov"]), State.ARCHIVED)

    def _mail_scenes(self) -> Iterator[Scene]:
        newsletter = jobs.send_newsletter
        current = [
            newsletter.envelope(f"reader{number}@example.com", greeting="Dear reader", issue=self.token)
            for number in range(60)
        ]
        old = [
            replace(
                newsletter.envelope(email="", greeting="", issue=""),
                schema_version=1,
                payload=codec.encode({"email": f"{name}@example.com", "name": name, "issue": self.token}),
            )
            for name in ("ada", "grace", "edsger")
        ]
        newer = replace(current[0], schema_version=3)
        yield Scene([self._named(envelope) for envelope in current + old], State.COMPLETED)
        yield Scene([self._named(newer)], State.UNDECODABLE)
        late = jobs.send_offer.using(delay=2, deadline=1)
        yield Scene([self._named(late.envelope("reader1@example.com", offer=self.token))], State.ARCHIVED)

    def _per_order(self, handler, orders: Iterable[Order]) -> list[Envelope]:
        return [self._named(handler.using(partition_key=order.shop).envelope(order.number)) for order in orders]

    def _each(self, handler, values: Iterable[str]) -> list[Envelope]:
        return [self._named(handler.envelope(value)) for value in values]

    def _named(self, envelope: Envelope) -> Envelope:
        return replace(envelope, id=f"{self.token}-job{next(self._numbers):03}")
