"""Jobs and dead letters: lists that never touch a payload, and their operations."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from headgate_django.admin import columns
from headgate_django.admin.confirm import list_actions
from headgate_django.admin.filters import (
    DiedFilter,
    EnqueuedFilter,
    ErrorFilter,
    QueueFilter,
    StateFilter,
    standing,
    within,
)
from headgate_django.admin.job_page import JobPageAdmin
from headgate_django.admin.operations import (
    CANCEL_JOBS,
    DISCARD_JOBS,
    PROMOTE_JOBS,
    REDRIVE_JOBS,
    RELEASE_JOBS,
)
from headgate_django.control.backlog import DUE
from headgate_django.control.search import PREFIXES, find
from headgate_django.core.states import STORED, TERMINAL, State
from headgate_django.models.job import Job
from headgate_django.models.proxies import ArchivedJob

NEWEST = ("-id",)
LAST_FINISHED = ("-finalized_at_ms", "-id")
ORDERS = {
    State.AVAILABLE: (
        "queue", "partition_key", "rate_class", "sticky_worker", "-priority", "scheduled_at_ms", "id",
    ),
    State.SCHEDULED: ("scheduled_at_ms", "id"),
    State.RETRYABLE: ("scheduled_at_ms", "id"),
    **dict.fromkeys(TERMINAL, LAST_FINISHED),
}  # fmt: skip
"""The order of each state's index; any other list is the newest first."""
KEYSETS = {NEWEST: "id__lt", LAST_FINISHED: "finalized_at_ms__lte"}


class JobListAdmin(JobPageAdmin):
    """What the two lists of jobs share."""

    search_fields = ("id",)
    search_help_text = _(
        "An exact id, or kind: queue: partition: tag: error: followed by the value, such as kind:email:welcome "
        'queue:"two words". Words are looked for among the newest 100,000 jobs.'
    )

    def state(self, request: HttpRequest) -> State | None:
        """The one state that the list holds, if it is one."""
        asked = request.GET.get(StateFilter.parameter_name)
        return State(asked) if asked in STORED else None

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """The order of the index that finds the rows."""
        state = self.state(request)
        return ORDERS.get(state, NEWEST) if state else NEWEST

    def keyset(self, request: HttpRequest) -> str:
        """Where the next rows begin, for the orders that run by time."""
        return KEYSETS.get(self.get_ordering(request), "")

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """The filters and the keyset only: any other condition could read the whole table."""
        filters = {one.parameter_name for one in self.list_filter}  # type: ignore[union-attr]
        return lookup in filters | set(KEYSETS.values())

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        """An id or prefixed words; anything else finds nothing and says how to ask."""
        if not search_term.strip():
            return queryset, False
        found = find(queryset, search_term, lambda: within(request, self.state(request)))
        if found is None:
            prefixes = ", ".join(f"{prefix}:" for prefix in PREFIXES)
            text = _("No job has this id. To search, put one of these before a word: %(prefixes)s")
            self.message_user(request, text % {"prefixes": prefixes}, messages.WARNING)
            return queryset.none(), False
        return found, False

    @admin.display(description=_("id"))
    def shown_id(self, job: Job) -> SafeString:
        """The id, short."""
        return columns.key(job.pk)

    @admin.display(description=_("kind"))
    def shown_kind(self, job: Job) -> SafeString:
        """The kind."""
        return columns.key(job.kind, 24)

    @admin.display(description=_("queue"))
    def shown_queue(self, job: Job) -> SafeString:
        """The queue."""
        return columns.key(job.queue, 16)

    @admin.display(description=_("partition"))
    def shown_partition(self, job: Job) -> SafeString:
        """The partition key."""
        return columns.key(job.partition_key, 16)

    @admin.display(description=_("state"))
    def shown_state(self, job: Job) -> SafeString:
        """The state as a badge."""
        return columns.state(job.state)

    @admin.display(description=_("attempt"))
    def shown_attempt(self, job: Job) -> str:
        """Failures of how many."""
        return f"{job.attempt}/{job.max_attempts}"

    @admin.display(description=_("enqueued or due"))
    def shown_time(self, job: Job) -> SafeString:
        """When it may run, if it waits for its time; else when it was enqueued."""
        if State(job.state) in DUE:
            return format_html("{} {}", _("due"), columns.when(job.scheduled_at_ms))
        return format_html("{}", columns.when(job.enqueued_at_ms))

    @admin.display(description=_("died"))
    def shown_died(self, job: Job) -> Any:
        """When it was archived."""
        return columns.when(job.finalized_at_ms)

    @admin.display(description=_("error"))
    def shown_error(self, job: Job) -> str:
        """The last error, short."""
        return columns.error(job.error_class, job.error_summary)


@admin.register(Job)
class JobAdmin(JobListAdmin):
    """All jobs."""

    list_display = (
        "shown_id",
        "shown_kind",
        "shown_state",
        "shown_queue",
        "shown_partition",
        "shown_attempt",
        "shown_time",
        "shown_error",
    )
    list_filter = (StateFilter, QueueFilter, EnqueuedFilter)
    operations = (REDRIVE_JOBS, PROMOTE_JOBS, RELEASE_JOBS, CANCEL_JOBS, DISCARD_JOBS)
    actions = list_actions(operations)


@admin.register(ArchivedJob)
class ArchivedJobAdmin(JobListAdmin):
    """The dead letters: what died last comes first."""

    list_display = (
        "shown_id",
        "shown_kind",
        "shown_died",
        "shown_error",
        "same_error",
        "shown_queue",
        "shown_partition",
        "shown_attempt",
    )
    list_filter = (DiedFilter, QueueFilter, ErrorFilter)
    operations = (REDRIVE_JOBS, DISCARD_JOBS)
    actions = list_actions(operations)

    def state(self, request: HttpRequest) -> State:
        """Always archived."""
        return State.ARCHIVED

    def get_queryset(self, request: HttpRequest) -> Any:
        """The archived jobs."""
        return standing(super().get_queryset(request), State.ARCHIVED)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Who may see dead letters, or all jobs."""
        return super().has_view_permission(request, obj) or request.user.has_perm("headgate_django.view_job")

    @admin.display(description="")
    def same_error(self, job: Job) -> str:
        """A link to the dead letters with the same error."""
        if not job.error_group:
            return ""
        url = columns.address(self.admin_site, "archivedjob", "changelist", error_group=job.error_group)
        return columns.link(url, _("same error"))
