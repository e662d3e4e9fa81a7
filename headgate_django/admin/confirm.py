"""From a list action or a button to ``control``: a confirmation by POST, the verb by a second POST, a message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote_plus

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _

from headgate_django.admin.columns import address
from headgate_django.admin.operations import Operation
from headgate_django.admin.pinned import PinnedAdmin
from headgate_django.admin.words import reasons, say
from headgate_django.control.authority import allowed
from headgate_django.control.selection import MAX_SELECTED, Selection, select
from headgate_django.exceptions import PermissionRefused
from headgate_django.lifecycle.redrive import MAX_EXTRA_ATTEMPTS
from headgate_django.models.store import alias


class OperationForm(forms.Form):
    """What a confirmation posts back. The ids are one field, however many they are."""

    ids = forms.JSONField(widget=forms.HiddenInput, required=False)
    more = forms.BooleanField(widget=forms.HiddenInput, required=False)
    back = forms.CharField(widget=forms.HiddenInput, required=False)
    extra_attempts = forms.IntegerField(
        label=_("Extra attempts"),
        help_text=_("A job whose attempts are used up dies again at its next failure unless it gets more."),
        min_value=0,
        max_value=MAX_EXTRA_ATTEMPTS,
        required=False,
    )

    def __init__(self, operation: Operation, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not operation.takes_attempts:
            del self.fields["extra_attempts"]

    def clean_ids(self) -> list[str]:
        """A list of ids, no longer than what one request takes."""
        ids = self.cleaned_data["ids"] or []
        if not isinstance(ids, list) or len(ids) > MAX_SELECTED or not all(_is_id(item) for item in ids):
            raise forms.ValidationError(_("These are not ids."))
        return ids


class OperationsAdmin(PinnedAdmin):
    """A screen with operations. Each needs its own permission, on the list, on the page and at the verb."""

    operations: Sequence[Operation] = ()

    def own_urls(self) -> list[Any]:
        """One address for all operations; it takes POST only."""
        view = self.admin_site.admin_view(self.operate_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_operate"
        return [path("operate/<slug:name>/", view, name=name), *super().own_urls()]

    def operate_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """Ask for confirmation, or, once confirmed, do it, report it, and go back."""
        operation = next((one for one in self.operations if one.name == name), None)
        if operation is None:
            raise Http404
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_view_permission(request) or not operation.allowed(request.user):
            raise PermissionDenied
        form = OperationForm(operation, request.POST)
        valid = form.is_valid()
        if "ids" in form.errors:
            raise BadRequest("ids")
        if not valid or "confirmed" not in request.POST:
            selection = Selection(
                using=alias(), ids=tuple(form.cleaned_data["ids"]), more=form.cleaned_data.get("more", False)
            )
            return self.ask(request, operation, selection, form if not valid else None)
        return self.operate(request, operation, form.cleaned_data)

    def ask(
        self, request: HttpRequest, operation: Operation, selection: Selection, form: OperationForm | None = None
    ) -> HttpResponse:
        """The confirmation: what will happen to how many, by kind. Changes nothing."""
        back, preview = self._back(request), operation.preview(selection)
        initial = {"ids": selection.ids, "more": selection.more, "back": back}
        return TemplateResponse(
            request,
            "headgate_django/admin/confirm.html",
            {
                **self.admin_site.each_context(request),
                "title": operation.action,
                "opts": self.opts,
                "media": self.media,
                "operation": operation,
                "form": form or OperationForm(operation, initial=initial),
                "preview": preview,
                "skipped": sum(preview.others.values()),
                "reasons": reasons(preview.others),
                "selected": len(selection.ids),
                "more": selection.more,
                "back": back,
                "url": address(self.admin_site, self._name, "operate", operation.name),
                "list_url": address(self.admin_site, self._name, "changelist"),
            },
        )

    def operate(self, request: HttpRequest, operation: Operation, data: dict[str, Any]) -> HttpResponse:
        """Do it as the user, and say what was done, skipped and refused."""
        options = {"extra_attempts": data["extra_attempts"] or 0} if operation.takes_attempts else {}
        try:
            report = operation.run(data["ids"], actor=request.user, using=alias(), **options)
        except PermissionRefused as error:
            raise PermissionDenied from error
        for level, text in say(operation, report):
            self.message_user(request, text, level)
        if data["more"] or report.more:
            self.message_user(request, _("There are more. Repeat the action for the rest."), messages.INFO)
        return HttpResponseRedirect(self._back(request))

    def choose(self, request: HttpRequest, operation: Operation, rows: QuerySet[Any]) -> HttpResponse:
        """The confirmation for rows selected on the list; their ids are fixed now."""
        selection = select(rows, using=alias(), limit=MAX_SELECTED)
        if not selection.ids:
            self.message_user(request, _("Nothing was selected."), messages.WARNING)
            return HttpResponseRedirect(self._back(request))
        fitting = tuple(_fitting(selection.ids))
        more = selection.more or len(fitting) < len(selection.ids)
        return self.ask(request, operation, Selection(using=selection.using, ids=fitting, more=more))

    def buttons(self, request: HttpRequest, object_id: str) -> list[dict[str, Any]]:
        """The operations as buttons of one row's page."""
        return [
            {
                "operation": one,
                "url": address(self.admin_site, self._name, "operate", one.name),
                "ids": json.dumps([unquote(object_id)]),
                "back": address(self.admin_site, self._name, "changelist"),
            }
            for one in self.operations
            if one.allowed(request.user)
        ]

    @property
    def _name(self) -> str:
        return str(self.opts.model_name)

    def _back(self, request: HttpRequest) -> str:
        listing = address(self.admin_site, self._name, "changelist")
        wanted = request.POST.get("back") or (request.get_full_path() if request.path == listing else "")
        local = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
        return wanted if wanted and local else listing

    def has_redrive_permission(self, request: HttpRequest) -> bool:
        """``redrive_job``."""
        return allowed(request.user, "redrive_job")

    def has_promote_permission(self, request: HttpRequest) -> bool:
        """``promote_job``."""
        return allowed(request.user, "promote_job")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """``cancel_job``."""
        return allowed(request.user, "cancel_job")

    def has_discard_permission(self, request: HttpRequest) -> bool:
        """``discard_job``."""
        return allowed(request.user, "discard_job")

    def has_release_permission(self, request: HttpRequest) -> bool:
        """``release_quarantine``."""
        return allowed(request.user, "release_quarantine")

    def has_pause_permission(self, request: HttpRequest) -> bool:
        """``pause_queue``."""
        return allowed(request.user, "pause_queue")

    def has_command_permission(self, request: HttpRequest) -> bool:
        """``command_worker``."""
        return allowed(request.user, "command_worker")


class OperableAdmin(OperationsAdmin):
    """A screen whose pages are Django's, with the operations as buttons."""

    change_form_template = "headgate_django/admin/operable.html"

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """As Django's, with the buttons."""
        return super().change_view(
            request, object_id, form_url, {**(extra_context or {}), "buttons": self.buttons(request, object_id)}
        )


def list_actions(operations: Iterable[Operation]) -> list[Any]:
    """The operations as actions of a list."""
    return [_list_action(operation) for operation in operations]


def _list_action(operation: Operation) -> Any:
    def act(screen: OperationsAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse:
        return screen.choose(request, operation, queryset)

    act.__name__ = operation.name
    permission = operation.permission.partition("_")[0]
    return admin.action(description=operation.action, permissions=[permission])(act)


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _fitting(ids: Sequence[str]) -> Iterable[str]:
    # As many as the confirmation can post back: Django refuses larger requests.
    room = (settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 2**31) // 2
    for one in ids:
        room -= len(quote_plus(json.dumps(one))) + 4
        if room < 0:
            return
        yield one
