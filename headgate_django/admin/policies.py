"""Rate classes with their budgets, and concurrency limits: what the gate reads, editable while workers run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext_lazy as _

from headgate_django.admin import columns
from headgate_django.admin.pinned import PinnedAdmin
from headgate_django.control.levels import MAX_BUCKETS, levels, running_under
from headgate_django.models import clock
from headgate_django.models.limits import ConcurrencyLimit, RateBudget, RateClass
from headgate_django.models.store import alias

if TYPE_CHECKING:
    TabularInline = admin.TabularInline[Any, Any]
    ModelForm = forms.ModelForm[Any]
else:
    TabularInline = admin.TabularInline
    ModelForm = forms.ModelForm


class BudgetForm(ModelForm):
    """A budget; without a burst it gets its limit."""

    burst = forms.IntegerField(required=False, min_value=1, label=_("Burst"), help_text=_("Default: the limit."))

    def clean(self) -> dict[str, Any]:
        """Fill in the burst."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if data.get("burst") is None:
            data["burst"] = data.get("limit")
        return data


class BudgetInline(TabularInline):
    """The budgets of a class: all of them must have room."""

    model = RateBudget
    form = BudgetForm
    extra = 1
    fields = ("limit", "window_ms", "burst", "per_partition")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Rows of the queue's database."""
        return RateBudget.objects.using(alias()).order_by("id")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Who may see the class."""
        return request.user.has_perm("headgate_django.view_rateclass") or self._may_change(request)

    def _may_change(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("headgate_django.change_rateclass")

    has_change_permission = has_delete_permission = has_add_permission = _may_change


@admin.register(RateClass)
class RateClassAdmin(PinnedAdmin):
    """Rate classes. Pausing needs its own permission."""

    list_display = ("shown_name", "budget_list", "shown_paused", "held", "shown_origin")
    fields = ("name", "paused", "held", "level_list", "shown_origin")
    inlines = [BudgetInline]
    search_fields = ("name",)

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """By name."""
        return ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """With the budgets, in one more statement."""
        return super().get_queryset(request).prefetch_related("budgets")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """The name never changes; ``paused`` only with the right to pause."""
        shown = ("held", "level_list", "shown_origin")
        fixed = (*shown, "name") if obj is not None else shown
        return fixed if request.user.has_perm("headgate_django.pause_rateclass") else (*fixed, "paused")

    @admin.display(description=_("name"))
    def shown_name(self, row: RateClass) -> SafeString:
        """The name."""
        return columns.key(row.name)

    @admin.display(description=_("budgets"))
    def budget_list(self, row: RateClass) -> SafeString | str:
        """Every budget in words."""
        return format_html_join(", ", "{}", ((budget,) for budget in row.budgets.all())) or columns.EMPTY

    @admin.display(description=_("paused"))
    def shown_paused(self, row: RateClass) -> SafeString | str:
        """A badge when it is paused."""
        badge = '<span class="headgate-state headgate-paused">{}</span>'
        return format_html(badge, _("Paused")) if row.paused else ""

    @admin.display(description=_("held back until"))
    def held(self, row: RateClass) -> Any:
        """When the pause ends that the far end asked for."""
        over = row.held_until_ms <= clock.now_ms(alias())
        return columns.EMPTY if over else columns.when(row.held_until_ms)

    @admin.display(description=_("tokens now"))
    def level_list(self, row: RateClass) -> Any:
        """The levels of the buckets, the emptiest first."""
        found = levels(row, using=alias())
        if not found:
            return _("all full")
        lines = [
            (_("%(budget)s: %(tokens)d of %(burst)d") % {"budget": budget, "tokens": tokens, "burst": burst}, key)
            for budget, tokens, burst, key in found
        ]
        more = format_html("<br>{}", _("The emptiest are shown.")) if len(found) >= MAX_BUCKETS else ""
        return format_html("{}{}", format_html_join(mark_safe("<br>"), "{} <b>{}</b>", lines), more)

    @admin.display(description=_("from"))
    def shown_origin(self, row: RateClass) -> Any:
        """Where the policy comes from."""
        return row.origin


@admin.register(ConcurrencyLimit)
class ConcurrencyLimitAdmin(PinnedAdmin):
    """Ceilings over a queue, its partitions, or a rate class."""

    list_display = ("shown_name", "scope", "key", "max_concurrent", "in_use", "on_saturated", "shown_origin")
    fields = ("name", "scope", "key", "max_concurrent", "on_saturated", "shown_origin")
    search_fields = ("name", "key")

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """By name."""
        return ("name",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """The name never changes."""
        return ("shown_origin", "name") if obj is not None else ("shown_origin",)

    def complete(self, rows: list[Any]) -> None:
        """Attach how many jobs run under each limit."""
        found = running_under(rows, using=alias())
        for row in rows:
            row.running_now = found[row.pk]

    @admin.display(description=_("name"))
    def shown_name(self, row: ConcurrencyLimit) -> SafeString:
        """The name."""
        return columns.key(row.name)

    @admin.display(description=_("running now"))
    def in_use(self, row: Any) -> str:
        """Jobs that run under it; of a partition scope, in the busiest partition."""
        return f"{row.running_now} / {row.max_concurrent}"

    @admin.display(description=_("from"))
    def shown_origin(self, row: ConcurrencyLimit) -> Any:
        """Where the policy comes from."""
        return row.origin
