"""One job on a page: its story, its runs, why it waits, what may be done. The payload only on request."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models.functions import Length
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext_lazy as _

from headgate_django.admin import columns
from headgate_django.admin.confirm import OperationsAdmin
from headgate_django.admin.operations import Operation
from headgate_django.admin.pinned import ReadOnlyAdmin
from headgate_django.control.authority import allowed
from headgate_django.control.reveal import PERMISSION as REVEAL_PERMISSION
from headgate_django.control.reveal import reveal
from headgate_django.control.timeline import attempts, timeline
from headgate_django.core.states import TERMINAL, State
from headgate_django.exceptions import PermissionRefused
from headgate_django.gate.explain import explain
from headgate_django.models.job import Job
from headgate_django.models.payload import Payload
from headgate_django.models.quarantine import Quarantine
from headgate_django.models.store import alias


class JobPageAdmin(ReadOnlyAdmin, OperationsAdmin):
    """The page of one job, read-only, with the operations that its state allows."""

    def own_urls(self) -> list[Any]:
        """Reveal is an address of its own; it takes POST only."""
        view = self.admin_site.admin_view(self.reveal_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_reveal"
        return [path("<path:object_id>/reveal/", view, name=name), *super().own_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """The page. Reads only."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        if not self.has_view_permission(request):
            raise PermissionDenied
        job = self.get_object(request, unquote(object_id))
        if job is None:
            gone: HttpResponse = self._get_obj_does_not_exist_redirect(  # type: ignore[attr-defined]
                request, self.opts, object_id
            )
            return gone
        return TemplateResponse(request, "headgate_django/admin/job.html", self._page(request, job))

    def reveal_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The payload, headers and logs, on the record; never kept by a browser or proxy."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_view_permission(request):
            raise PermissionDenied
        job = self.get_object(request, unquote(object_id))
        if job is None:
            raise Http404
        try:
            revealed = reveal(job.pk, actor=request.user, using=alias())
        except PermissionRefused as error:
            raise PermissionDenied from error
        except Job.DoesNotExist as error:
            raise Http404 from error
        context = {
            **self._frame(request, job),
            "title": _("Revealed data"),
            "revealed": revealed,
            "size": columns.size(revealed.size),
        }
        response = TemplateResponse(request, "headgate_django/admin/revealed.html", context)
        add_never_cache_headers(response)
        return response

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """The history of the job itself, whichever list it was reached by."""
        url = columns.address(self.admin_site, "job", "history", unquote(object_id))
        if url and self.opts.proxy:
            return HttpResponseRedirect(url)
        return super().history_view(request, object_id, extra_context)

    def _frame(self, request: HttpRequest, job: Job) -> dict[str, Any]:
        return {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "media": self.media,
            "job": job,
            "state": columns.state(job.state),
            "list_url": self._url("changelist"),
            "page_url": self._url("change", job.pk),
        }

    def _page(self, request: HttpRequest, job: Job) -> dict[str, Any]:
        runs = attempts(job)
        size = Payload.objects.using(alias()).filter(pk=job.pk).values_list(Length("data"), flat=True).first()
        return {
            **self._frame(request, job),
            "title": job.kind,
            "facts": _facts(job),
            "explanation": None if State(job.state) in TERMINAL else explain(job),
            "moments": [(columns.instant(moment.at), moment) for moment in timeline(job, runs)],
            "runs": [
                (run, columns.when(run.started_at_ms), columns.duration(run.duration_ms)) for run in reversed(runs)
            ],
            "size": columns.size(size) if size is not None else "",
            "has_private": size is not None or any(run.logs_length for run in runs),
            "progress": _progress(job),
            "buttons": [self._button(one, job) for one in self._possible(request, job)],
            "reveal_url": self._url("reveal", job.pk) if allowed(request.user, REVEAL_PERMISSION) else "",
            "same_error_url": self._same_error(job),
            "quarantine_url": self._quarantine(request, job),
            "history_url": self._url("history", job.pk) if allowed(request.user, "view_job") else "",
        }

    def _possible(self, request: HttpRequest, job: Job) -> list[Operation]:
        state = State(job.state)
        return [
            one
            for one in self.operations
            if one.verb is not None and one.verb.starts_from(state) and one.allowed(request.user)
        ]

    def _button(self, operation: Operation, job: Job) -> dict[str, Any]:
        # After an operation the job may have left this list, or be gone.
        stays = not self.opts.proxy and not (operation.verb and operation.verb.deletes)
        return {
            "operation": operation,
            "url": self._url("operate", operation.name),
            "ids": json.dumps([job.pk]),
            "back": self._url("change", job.pk) if stays else self._url("changelist"),
        }

    def _same_error(self, job: Job) -> str:
        if not job.error_group or job.state != State.ARCHIVED:
            return ""
        return columns.address(self.admin_site, "archivedjob", "changelist", error_group=job.error_group)

    def _quarantine(self, request: HttpRequest, job: Job) -> str:
        if not allowed(request.user, "view_quarantine"):
            return ""
        if not Quarantine.objects.using(alias()).filter(pk=job.fingerprint).exists():
            return ""
        return columns.address(self.admin_site, "quarantine", "change", job.fingerprint)

    def _url(self, view: str, *args: str) -> str:
        return columns.address(self.admin_site, str(self.opts.model_name), view, *args)


@dataclass(frozen=True, slots=True)
class ProgressBar:
    """How far a run has come, for eyes and for screen readers."""

    words: str
    at: Any
    done: int
    total: int
    of_last_run: bool


def _progress(job: Job) -> ProgressBar | None:
    """What the newest report says; None when no run has reported."""
    if job.progress_at_ms is None:
        return None
    done, total = job.progress_done, job.progress_total
    words = f"{done:,}"
    if total:
        words = _("%(done)s of %(total)s (%(percent)d %%)") % {
            "done": words,
            "total": f"{total:,}",
            "percent": min(100, 100 * done // total),
        }
    current = job.state == State.RUNNING and job.progress_at_ms >= (job.attempted_at_ms or 0)
    at = columns.when(job.progress_at_ms)
    return ProgressBar(words, at, min(done, total), total, not current)


def _facts(job: Job) -> list[tuple[Any, Any]]:
    """What the envelope and the execution state say, without what is empty."""
    facts = [
        (_("Queue"), job.queue),
        (_("Partition"), job.partition_key),
        (_("Rate class"), job.rate_class),
        (_("Only worker"), job.sticky_worker),
        (_("Priority"), job.priority),
        (_("Weight"), job.weight),
        (_("Tags"), ", ".join(job.tags)),
        (_("Failures"), f"{job.attempt} / {job.max_attempts}"),
        (_("Crashes"), job.crash_attempt),
        (_("Interruptions"), job.interruptions),
        (_("Runs"), job.fence),
        (_("Last worker"), job.worker_id),
        (_("Lease until"), columns.when(job.lease_expires_at_ms)),
        (_("Due"), columns.when(job.scheduled_at_ms)),
        (_("Deadline"), columns.when(job.deadline_ms)),
        (_("Timeout"), columns.duration(job.timeout_ms) if job.timeout_ms else ""),
        (_("Kept after the end"), columns.duration(job.retention_ms) if job.retention_ms else ""),
        (_("Schema version"), job.schema_version),
        (_("Fingerprint"), job.fingerprint),
    ]
    return [(name, value) for name, value in facts if value not in ("", columns.EMPTY)]
