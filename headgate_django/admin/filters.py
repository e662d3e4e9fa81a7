"""Filters whose choices are known beforehand, and whose conditions an index or the search window bounds."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import BooleanField, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from headgate_django.admin.words import STATES
from headgate_django.control.backlog import DUE, MAX_QUEUES, queues_with_work
from headgate_django.control.window import window
from headgate_django.core.states import STORED, TERMINAL, State
from headgate_django.models import clock
from headgate_django.models.queue import Queue
from headgate_django.models.store import alias, literals

HOUR = 3_600_000
PERIODS = {"hour": HOUR, "day": 24 * HOUR, "week": 7 * 24 * HOUR}


def standing(jobs: QuerySet[Any], state: State) -> QuerySet[Any]:
    """The jobs in this state, in words that every planner can match with the index of that state."""
    jobs = jobs.filter(state=RawSQL(literals(state), ()))
    if state in TERMINAL:
        return jobs.filter(finalized_at_ms__isnull=False)
    if state in DUE:
        return jobs.filter(Q(RawSQL(f"state IN ({literals(*DUE)})", (), output_field=BooleanField())))
    return jobs


def within(request: HttpRequest, state: State | None) -> Q:
    """The search window of this request; the edge is looked up once."""
    if not hasattr(request, "_headgate_window"):
        request._headgate_window = window(alias(), state)  # type: ignore[attr-defined]
    return request._headgate_window  # type: ignore[attr-defined, no-any-return]


class ScreenFilter(SimpleListFilter):
    """A filter that knows its screen."""

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        self.screen = model_admin
        super().__init__(request, params, model, model_admin)
        value = self.value()
        if value is not None and "\0" in value:
            raise IncorrectLookupParameters

    def chosen(self, choices: Any) -> Any:
        """The value, one of the choices, or None. Raises IncorrectLookupParameters for anything else."""
        value = self.value()
        if value is not None and value not in choices:
            raise IncorrectLookupParameters
        return value


class StateFilter(ScreenFilter):
    """By state; each has an index but pending."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """All stored states."""
        return [(state.value, STATES[state]) for state in State if state in STORED]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """The jobs that stand there."""
        chosen = self.chosen([state.value for state in STORED])
        if chosen is None:
            return queryset
        state = State(chosen)
        jobs = standing(queryset, state)
        return jobs.filter(within(request, state)) if state is State.PENDING else jobs


class QueueFilter(ScreenFilter):
    """By queue: those with a policy and those with available work, never by DISTINCT over the jobs."""

    title = _("queue")
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """The known queues, and the one asked for."""
        using = alias()
        names = set(Queue.objects.using(using).values_list("name", flat=True)[:MAX_QUEUES])
        names.update(queues_with_work(using))
        if asked := request.GET.get(self.parameter_name):
            names.add(asked)
        return [(name, name) for name in sorted(names)]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """The queue's jobs, within the search window unless the ready index knows them."""
        if self.value() is None:
            return queryset
        jobs = queryset.filter(queue=self.value())
        state = self.screen.state(request)
        return jobs if state is State.AVAILABLE else jobs.filter(within(request, state))


class PeriodFilter(ScreenFilter):
    """By time: the past hour, day or week of the store's clock."""

    column = ""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Three periods."""
        return [("hour", _("Past hour")), ("day", _("Past 24 hours")), ("week", _("Past 7 days"))]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """The jobs since then."""
        chosen = self.chosen(PERIODS)
        if chosen is None:
            return queryset
        since = Q(**{f"{self.column}__gte": clock.now_ms(alias()) - PERIODS[chosen]})
        return queryset.filter(since, within(request, self.screen.state(request)))


class EnqueuedFilter(PeriodFilter):
    """When the job was enqueued."""

    title = _("enqueued")
    parameter_name = "enqueued"
    column = "enqueued_at_ms"


class DiedFilter(PeriodFilter):
    """When the job died."""

    title = _("died")
    parameter_name = "died"
    column = "finalized_at_ms"


class ErrorFilter(ScreenFilter):
    """The same error: reached by the link of a row, so no list of all errors is made."""

    title = _("error")
    parameter_name = "error_group"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Only the one asked for."""
        asked = request.GET.get(self.parameter_name)
        return [(asked, _("Same error"))] if asked else []

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """The jobs whose last error is in this group."""
        if self.value() is None:
            return queryset
        return queryset.filter(Q(error_group=self.value()), within(request, self.screen.state(request)))
