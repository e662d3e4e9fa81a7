"""Quarantine: content that has crashed workers, and its release."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from headgate_django.admin import columns
from headgate_django.admin.confirm import OperableAdmin, list_actions
from headgate_django.admin.operations import RELEASE_CANARIES, RELEASE_CONTENTS
from headgate_django.admin.pinned import ReadOnlyAdmin
from headgate_django.control.backlog import Siblings, siblings
from headgate_django.models.quarantine import Quarantine
from headgate_django.models.store import alias


@admin.register(Quarantine)
class QuarantineAdmin(ReadOnlyAdmin, OperableAdmin):
    """Poison pills, the newest first. Leaving quarantine is a release, never a deletion."""

    list_display = ("shown_fingerprint", "kind", "reason", "crash_count", "created", "sample_job")
    fields = (
        "fingerprint",
        "kind",
        "reason",
        "crash_count",
        "created",
        "sample_job",
        "canary",
        "waiting",
        "quarantined",
    )
    readonly_fields = ("created", "sample_job", "canary", "waiting", "quarantined")
    operations = (RELEASE_CONTENTS, RELEASE_CANARIES)
    actions = list_actions(operations)

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """The newest first."""
        return ("-created_at_ms", "fingerprint")

    @admin.display(description=_("fingerprint"))
    def shown_fingerprint(self, row: Quarantine) -> SafeString:
        """The fingerprint."""
        return columns.key(row.fingerprint)

    @admin.display(description=_("since"))
    def created(self, row: Quarantine) -> Any:
        """When it was quarantined."""
        return columns.when(row.created_at_ms)

    @admin.display(description=_("sample job"))
    def sample_job(self, row: Quarantine) -> SafeString:
        """A job with this content."""
        return columns.job(self.admin_site, row.sample_job_id)

    @admin.display(description=_("canary"))
    def canary(self, row: Quarantine) -> SafeString:
        """The job that runs ahead."""
        return columns.job(self.admin_site, row.canary_job_id)

    @admin.display(description=_("waiting jobs"))
    def waiting(self, row: Quarantine) -> str:
        """Jobs with this content that wait and would be quarantined."""
        return str(_siblings(row).waiting)

    @admin.display(description=_("quarantined jobs"))
    def quarantined(self, row: Quarantine) -> str:
        """Jobs with this content that a release would free."""
        return str(_siblings(row).quarantined)


def _siblings(row: Any) -> Siblings:
    if not hasattr(row, "siblings"):
        row.siblings = siblings([row.pk], alias())[row.pk]
    return row.siblings  # type: ignore[no-any-return]
