"""What every screen shares: the queue's database, the style sheet, and who may not add, change or delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from headgate_django.admin.paging import BoundedPaginator, ScreenChangeList
from headgate_django.models.store import alias

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
    ModelForm = forms.ModelForm[Any]
else:
    ModelAdmin = admin.ModelAdmin
    ModelForm = forms.ModelForm


class PinnedForm(ModelForm):
    """Checks uniqueness where the queue is; Django would ask the database that the routers read."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.instance._state.db = alias()  # where constraints are checked

    def validate_unique(self) -> None:
        """A new row's key must be free."""
        key = self.instance.pk
        rows = type(self.instance)._default_manager.using(alias())
        if self.instance._state.adding and key is not None and rows.filter(pk=key).exists():
            self.add_error(None, _("There is one with this name already."))


class PinnedAdmin(ModelAdmin):
    """A screen on the queue's database, whatever the routers say, whose cost does not grow with the tables."""

    form = PinnedForm
    list_per_page = 100
    list_max_show_all = 0
    sortable_by = ()
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER

    class Media:
        css = {"all": ["headgate_django/admin.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Rows of the queue's database, in the order of the screen."""
        rows: QuerySet[Any] = self.model._default_manager.using(alias())
        return rows.order_by(*self.get_ordering(request))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ScreenChangeList]:
        """A list that the screen completes."""
        return ScreenChangeList

    def keyset(self, request: HttpRequest) -> str:
        """The lookup that continues behind a row of the list, such as ``id__lt``; empty when there is none."""
        return ""

    def complete(self, rows: list[Any]) -> None:
        """Attach to the rows of one page what their columns need, in a constant number of statements."""

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """As Django's; an id that no database can hold names nothing."""
        return None if "\0" in object_id else super().get_object(request, object_id, from_field)

    def get_urls(self) -> list[Any]:
        """As Django's, after the screen's own. With ATOMIC_REQUESTS a bulk operation would be one transaction."""
        urls = [*self.own_urls(), *super().get_urls()]
        for url in urls:
            url.callback._non_atomic_requests = {alias()}
        return urls

    def own_urls(self) -> list[Any]:
        """Addresses beyond Django's."""
        return []

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:
        """Save where the queue is; a new row never overwrites one."""
        obj.save(using=alias(), force_insert=not change)

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        """Delete where the queue is."""
        obj.delete(using=alias())


class ReadOnlyAdmin(PinnedAdmin):
    """A screen to look at."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody."""
        return False
