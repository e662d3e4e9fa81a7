"""Workers and duties: who is alive, and who sweeps."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import BigIntegerField, BooleanField, ExpressionWrapper, Q, Value
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext_lazy as _

from headgate_django.admin import columns
from headgate_django.admin.confirm import OperableAdmin, list_actions
from headgate_django.admin.operations import COMMAND_WORKERS
from headgate_django.admin.pinned import ReadOnlyAdmin
from headgate_django.control.fleet import Fleet, fleet
from headgate_django.models import clock
from headgate_django.models.fleet import Duty, Worker
from headgate_django.models.store import alias


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin, OperableAdmin):
    """Worker processes by their last heartbeat, and commands to them."""

    list_display = (
        "shown_id",
        "shown_status",
        "load",
        "used",
        "empty",
        "shown_stuck",
        "memory",
        "serves",
        "shown_host",
        "code",
        "heard",
        "order",
    )
    fields = (
        "shown_status", "shown_supervisor", "load", "used", "shown_stuck", "serves", "running_now", "order",
        "hostname", "pid", "version", "code_version", "memory", "wakeup", "polls", "empty_polls", "empty",
        "heartbeat", "started",
    )  # fmt: skip
    readonly_fields = fields
    operations = COMMAND_WORKERS
    actions = list_actions(operations)
    change_list_template = "headgate_django/admin/workers.html"

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """The latest heartbeat first."""
        return ("-heartbeat_at_ms", "id")

    def get_queryset(self, request: HttpRequest) -> Any:
        """With the store's time, by which heartbeats are judged; what runs is read for one page only."""
        seen_at_ms = Value(clock.now_ms(alias()), output_field=BigIntegerField())
        return super().get_queryset(request).annotate(seen_at_ms=seen_at_ms).defer("current_jobs")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """As Django's, with the fleet in numbers."""
        found = fleet(using=alias()) if request.method == "GET" else None
        return super().changelist_view(request, {**(extra_context or {}), "fleet": found and _summary(found)})

    @admin.display(description=_("id"))
    def shown_id(self, worker: Worker) -> SafeString:
        """The id."""
        return columns.key(worker.id)

    @admin.display(description=_("supervisor"))
    def shown_supervisor(self, worker: Worker) -> SafeString:
        """The worker command that it belongs to."""
        return columns.key(worker.supervisor)

    @admin.display(description=_("status"))
    def shown_status(self, worker: Any) -> SafeString:
        """What it says it does; silent when it was not heard of lately."""
        return columns.worker_status(worker.status, alive=worker.alive_at(worker.seen_at_ms))

    @admin.display(description=_("in flight"))
    def load(self, worker: Worker) -> str:
        """Jobs in flight of the capacity."""
        return f"{worker.in_flight} / {worker.capacity}"

    @admin.display(description=_("used"))
    def used(self, worker: Worker) -> str:
        """The share of its slots that is in use."""
        return columns.share(worker.utilisation)

    @admin.display(description=_("empty polls"))
    def empty(self, worker: Worker) -> str:
        """The share of its recent polls that found nothing."""
        return columns.share(worker.empty_poll_ratio)

    @admin.display(description=_("stuck"))
    def shown_stuck(self, worker: Worker) -> SafeString | int:
        """Threads whose handler ignores that its time is up."""
        badge = '<span class="headgate-state headgate-silent">{}</span>'
        return format_html(badge, worker.stuck) if worker.stuck else 0

    @admin.display(description=_("memory"))
    def memory(self, worker: Worker) -> str:
        """Resident memory."""
        return columns.memory(worker.rss_bytes)

    @admin.display(description=_("queues"))
    def serves(self, worker: Worker) -> str:
        """Queues and weights."""
        return ", ".join(f"{name}:{weight}" for name, weight in sorted(worker.queues.items()))

    @admin.display(description=_("host, pid"))
    def shown_host(self, worker: Worker) -> str:
        """Where it runs."""
        return f"{worker.hostname}, {worker.pid}"

    @admin.display(description=_("code"))
    def code(self, worker: Worker) -> SafeString:
        """The version of the application's code."""
        return columns.key(worker.code_version, 16)

    @admin.display(description=_("heard of"))
    def heard(self, worker: Any) -> str:
        """How long ago its last heartbeat was."""
        age = columns.duration(worker.seen_at_ms - worker.heartbeat_at_ms)
        return _("%(age)s ago") % {"age": age}

    @admin.display(description=_("command"))
    def order(self, worker: Worker) -> str:
        """The command that waits for it, or the last that it obeyed."""
        if worker.command:
            return _("%(command)s: waits") % {"command": worker.command}
        return (
            _("%(command)s: obeyed") % {"command": worker.acknowledged} if worker.acknowledged else columns.EMPTY
        )

    @admin.display(description=_("running now"))
    def running_now(self, worker: Any) -> SafeString | str:
        """The jobs that it ran at its last heartbeat, with links."""
        lines = [
            (
                columns.job(self.admin_site, job["id"]),
                job["kind"],
                columns.duration(worker.seen_at_ms - job["started_at_ms"]),
            )
            for job in worker.current_jobs
        ]
        return format_html_join(mark_safe("<br>"), "{} {}, {}", lines) or columns.EMPTY

    @admin.display(description=_("heartbeat"))
    def heartbeat(self, worker: Worker) -> Any:
        """When it was last heard of."""
        return columns.when(worker.heartbeat_at_ms)

    @admin.display(description=_("started"))
    def started(self, worker: Worker) -> Any:
        """When it started."""
        return columns.when(worker.started_at_ms)


def _summary(found: Fleet) -> dict[str, Any]:
    return {
        "live": len(found.live),
        "silent": found.stale,
        "in_flight": found.in_flight,
        "capacity": found.capacity,
        "used": columns.share(found.utilisation),
        "empty": columns.share(found.empty_poll_ratio),
        "served": list(found.served.items()),
    }


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
