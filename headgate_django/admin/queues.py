"""Queues and partitions: their policies, and how much waits in each queue."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from headgate_django.admin import columns
from headgate_django.admin.confirm import OperableAdmin, list_actions
from headgate_django.admin.operations import PAUSE_QUEUES, RESUME_QUEUES
from headgate_django.admin.pinned import PinnedAdmin
from headgate_django.control.backlog import MAX_QUEUES, backlogs, queues_with_work
from headgate_django.control.queues import pause, resume
from headgate_django.core.states import State
from headgate_django.models.queue import Partition, Queue
from headgate_django.models.store import alias


@admin.register(Queue)
class QueueAdmin(OperableAdmin):
    """The policies of queues. Pausing needs its own permission, also on the form."""

    list_per_page = MAX_QUEUES
    list_display = (
        "shown_name",
        "weight",
        "shown_paused",
        "max_unfinished_jobs",
        "available",
        "oldest",
        "running",
        "scheduled",
        "retryable",
        "dead",
    )
    fields = ("name", "weight", "paused", "max_unfinished_jobs", "shown_origin")
    search_fields = ("name",)
    operations = (PAUSE_QUEUES, RESUME_QUEUES)
    actions = list_actions(operations)
    change_list_template = "headgate_django/admin/queues.html"

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """By name."""
        return ("name",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """The name never changes; ``paused`` only with the right to pause."""
        fixed = ("shown_origin", "name") if obj is not None else ("shown_origin",)
        return fixed if self.has_pause_permission(request) else (*fixed, "paused")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deleting a policy may end a pause, so it needs that right too."""
        return super().has_delete_permission(request, obj) and self.has_pause_permission(request)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Pause and resume through ``control``, the rest as a policy."""
        if change and "paused" in form.changed_data:
            (pause if obj.paused else resume)([obj.pk], actor=request.user, using=alias())
        super().save_model(request, obj, form, change)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """As Django's, with the queues that have work and no policy."""
        bare: list[str] = []
        if request.method == "GET":
            working = queues_with_work(alias())
            known = set(Queue.objects.using(alias()).filter(pk__in=working).values_list("pk", flat=True))
            bare = [name for name in working if name not in known]
        return super().changelist_view(request, {**(extra_context or {}), "bare": self._bare(request, bare)})

    def buttons(self, request: HttpRequest, object_id: str) -> list[dict[str, Any]]:
        """Pause or resume, whichever applies."""
        paused = Queue.objects.using(alias()).filter(pk=unquote(object_id), paused=True).exists()
        other = PAUSE_QUEUES if paused else RESUME_QUEUES
        return [button for button in super().buttons(request, object_id) if button["operation"] is not other]

    def complete(self, rows: list[Any]) -> None:
        """Attach each queue's backlog."""
        found = backlogs([row.name for row in rows], alias())
        for row in rows:
            row.backlog = found[row.name]

    def _bare(self, request: HttpRequest, names: list[str]) -> list[tuple[str, str]]:
        may_add = self.has_add_permission(request)
        return [
            (name, columns.address(self.admin_site, "queue", "add", name=name) if may_add else "")
            for name in names
        ]

    def _count(self, row: Any, state: State, screen: str = "job") -> SafeString:
        count = row.backlog.counts[state]
        if not count.number:
            return format_html("{}", count)
        query = {"queue": row.name, "state": state.value} if screen == "job" else {"queue": row.name}
        return columns.link(columns.address(self.admin_site, screen, "changelist", **query), count)

    @admin.display(description=_("from"))
    def shown_origin(self, row: Queue) -> Any:
        """Where the policy comes from."""
        return row.origin

    @admin.display(description=_("name"))
    def shown_name(self, row: Queue) -> SafeString:
        """The name."""
        return columns.key(row.name)

    @admin.display(description=_("paused"))
    def shown_paused(self, row: Queue) -> Any:
        """A badge when it is paused."""
        return (
            format_html('<span class="headgate-state headgate-paused">{}</span>', _("Paused"))
            if row.paused
            else ""
        )

    @admin.display(description=_("available"))
    def available(self, row: Any) -> SafeString:
        """Jobs that could run now."""
        return self._count(row, State.AVAILABLE)

    @admin.display(description=_("oldest"))
    def oldest(self, row: Any) -> str:
        """How long the oldest available job has waited; at least, when not all are counted."""
        if row.backlog.oldest_ms is None:
            return columns.EMPTY
        age = columns.duration(row.backlog.oldest_ms)
        return f"≥ {age}" if row.backlog.counts[State.AVAILABLE].more else age

    @admin.display(description=_("running"))
    def running(self, row: Any) -> SafeString:
        """Jobs that run."""
        return self._count(row, State.RUNNING)

    @admin.display(description=_("scheduled"))
    def scheduled(self, row: Any) -> SafeString:
        """Jobs whose time has not come."""
        return self._count(row, State.SCHEDULED)

    @admin.display(description=_("retryable"))
    def retryable(self, row: Any) -> SafeString:
        """Jobs that failed and will run again."""
        return self._count(row, State.RETRYABLE)

    @admin.display(description=_("dead"))
    def dead(self, row: Any) -> SafeString:
        """Dead letters."""
        return self._count(row, State.ARCHIVED, "archivedjob")


@admin.register(Partition)
class PartitionAdmin(PinnedAdmin):
    """Overrides for single partitions of a queue."""

    list_display = ("shown", "queue", "weight", "paused")
    fields = ("queue", "key", "weight", "paused")
    search_fields = ("queue", "key")

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """By queue, then key."""
        return ("queue", "key")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """What the override is for never changes."""
        return ("queue", "key") if obj is not None else ()

    @admin.display(description=_("partition"))
    def shown(self, row: Partition) -> SafeString:
        """The partition key."""
        return columns.key(row.key) if row.key else format_html("{}", _("(empty)"))
