"""States and reports in the operator's language."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.contrib import messages
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from headgate_django.control.report import (
    ALREADY_PAUSED,
    ATTEMPTS_AT_LIMIT,
    BUSY,
    CANARY_IS_OUT,
    CONTENT_QUARANTINED,
    GONE,
    NO_JOB,
    NOT_ALIVE,
    NOT_PAUSED,
    Report,
)
from headgate_django.core.commands import Status
from headgate_django.core.states import State

STATES = {
    State.PENDING: _("Pending"),
    State.SCHEDULED: _("Scheduled"),
    State.AVAILABLE: _("Available"),
    State.RUNNING: _("Running"),
    State.RETRYABLE: _("Retryable"),
    State.COMPLETED: _("Completed"),
    State.ARCHIVED: _("Archived"),
    State.CANCELLED: _("Cancelled"),
    State.QUARANTINED: _("Quarantined"),
    State.UNDECODABLE: _("Undecodable"),
}
WORKER_STATUSES = {
    Status.RUNNING.value: _("Running"),
    Status.QUIET.value: _("Quiet"),
    Status.RESTARTING.value: _("Restarting"),
    Status.STOPPING.value: _("Stopping"),
}
REASONS = {
    GONE: _("no longer there"),
    CONTENT_QUARANTINED: _("content is quarantined, release it first"),
    CANARY_IS_OUT: _("a canary is out already"),
    NO_JOB: _("no quarantined job is left"),
    ATTEMPTS_AT_LIMIT: _("no room for more attempts"),
    BUSY: _("the database was busy, try again"),
    ALREADY_PAUSED: _("already paused"),
    NOT_PAUSED: _("not paused"),
    NOT_ALIVE: _("not heard of lately"),
}


def reason(code: str) -> str:
    """Why something was skipped or refused: one of our reasons, or the state it was in."""
    return str(REASONS[code]) if code in REASONS else str(STATES[State(code)]).lower()


def reasons(counts: Mapping[str, int]) -> str:
    """The only reason, or each with its count, the most frequent first."""
    if len(counts) == 1:
        return reason(next(iter(counts)))
    return ", ".join(
        f"{count} {reason(code)}" for code, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def say(operation: Any, report: Report) -> Iterator[tuple[int, str]]:
    """The messages of a report: done, skipped, refused, each with its reasons."""
    if report.done:
        done = operation.done % {"count": report.done}
        if report.freed:
            freed = ngettext(
                "%(count)s job is available again.", "%(count)s jobs are available again.", report.freed
            )
            done = f"{done} {freed % {'count': report.freed}}"
        yield messages.SUCCESS, done
    if report.skipped:
        yield messages.WARNING, _("%(count)s skipped: %(reasons)s.") % _counted(report.skipped)
    if report.refused:
        yield messages.ERROR, _("%(count)s refused: %(reasons)s.") % _counted(report.refused)
    if not (report.done or report.skipped or report.refused):
        yield messages.WARNING, str(_("Nothing was selected."))


def _counted(counts: Mapping[str, int]) -> dict[str, Any]:
    return {"count": sum(counts.values()), "reasons": reasons(counts)}
