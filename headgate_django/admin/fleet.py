"""Workers and duties: who is alive, and who sweeps."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from headgate_django.admin import columns
from headgate_django.admin.pinned import ReadOnlyAdmin
from headgate_django.models import clock
from headgate_django.models.fleet import STALE_MS, Duty, Worker
from headgate_django.models.store import alias


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """Worker processes by their last heartbeat."""

    list_display = (
        "shown_id",
        "alive",
        "status",
        "load",
        "serves",
        "hostname",
        "pid",
        "version",
        "heartbeat",
        "started",
    )
    fields = (*list_display[1:], "polls", "empty_polls")
    readonly_fields = ("alive", "load", "serves", "heartbeat", "started")

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """The latest heartbeat first."""
        return ("-heartbeat_at_ms", "id")

    def get_queryset(self, request: HttpRequest) -> Any:
        """With the verdict of the store's clock on each heartbeat."""
        fresh = Q(heartbeat_at_ms__gt=clock.now_ms(alias()) - STALE_MS)
        alive = ExpressionWrapper(fresh, output_field=BooleanField())
        return super().get_queryset(request).annotate(is_alive=alive)

    @admin.display(description=_("id"))
    def shown_id(self, worker: Worker) -> SafeString:
        """The id."""
        return columns.key(worker.id)

    @admin.display(description=_("alive"), boolean=True)
    def alive(self, worker: Any) -> bool:
        """Whether the heartbeat is fresh."""
        return bool(worker.is_alive)

    @admin.display(description=_("in flight"))
    def load(self, worker: Worker) -> str:
        """Jobs in flight of the capacity."""
        return f"{worker.in_flight} / {worker.capacity}"

    @admin.display(description=_("queues"))
    def serves(self, worker: Worker) -> str:
        """Queues and weights."""
        return ", ".join(f"{name}:{weight}" for name, weight in sorted(worker.queues.items()))

    @admin.display(description=_("heartbeat"))
    def heartbeat(self, worker: Worker) -> Any:
        """When it was last heard of."""
        return columns.when(worker.heartbeat_at_ms)

    @admin.display(description=_("started"))
    def started(self, worker: Worker) -> Any:
        """When it started."""
        return columns.when(worker.started_at_ms)


@admin.register(Duty)
class DutyAdmin(ReadOnlyAdmin):
    """The sweeps, and who holds each."""

    list_display = ("name", "shown_holder", "held", "expires", "handled")
    fields = ("name", "holder", "held", "expires", "handled")
    readonly_fields = ("held", "expires")

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """By name."""
        return ("name",)

    def get_queryset(self, request: HttpRequest) -> Any:
        """With the verdict of the store's clock on each lease."""
        current = Q(expires_at_ms__gt=clock.now_ms(alias())) & ~Q(holder="")
        return (
            super().get_queryset(request).annotate(is_held=ExpressionWrapper(current, output_field=BooleanField()))
        )

    @admin.display(description=_("holder"))
    def shown_holder(self, duty: Duty) -> SafeString:
        """The worker that holds it."""
        return columns.key(duty.holder)

    @admin.display(description=_("held"), boolean=True)
    def held(self, duty: Any) -> bool:
        """Whether its lease is current."""
        return bool(duty.is_held)

    @admin.display(description=_("until"))
    def expires(self, duty: Duty) -> Any:
        """When the lease ends."""
        return columns.when(duty.expires_at_ms)
