"""What can be done on a screen: for each verb of ``control`` its words, and what a confirmation shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from headgate_django.control.authority import allowed
from headgate_django.control.backlog import siblings
from headgate_django.control.cancel import cancel, discard
from headgate_django.control.fleet import COMMAND_PERMISSION, command
from headgate_django.control.promote import promote
from headgate_django.control.queues import PAUSE_PERMISSION, pause, resume
from headgate_django.control.redrive import redrive
from headgate_django.control.release import release, release_content_of
from headgate_django.control.report import Report
from headgate_django.control.selection import Selection, census
from headgate_django.control.verb import CANCEL, DISCARD, PROMOTE, REDRIVE, RELEASE, Verb
from headgate_django.core.commands import Command
from headgate_django.core.states import State
from headgate_django.models.fleet import Worker
from headgate_django.models.quarantine import Quarantine

MAX_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a confirmation says: how many rows can be done, the others by state, and a bounded breakdown."""

    ready: int
    others: Mapping[str, int]
    lines: Sequence[tuple[str, Any]]
    more_lines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One button or list action. ``done`` is the message for a number of rows."""

    name: str
    permission: str
    label: Any
    action: Any
    effect: Any
    done: Any
    run: Callable[..., Report]
    preview: Callable[[Selection], Preview]
    verb: Verb | None = None
    takes_attempts: bool = False
    dangerous: bool = False

    def allowed(self, user: Any) -> bool:
        """Whether this user may."""
        return allowed(user, self.permission)


def _of_jobs(verb: Verb) -> Callable[[Selection], Preview]:
    def preview(selection: Selection) -> Preview:
        found = census(selection)
        ready = {state: count for state, count in found.states.items() if verb.starts_from(State(state))}
        kinds = list(found.kinds.items())
        return Preview(
            ready=sum(ready.values()),
            others={state: count for state, count in found.states.items() if state not in ready},
            lines=kinds[:MAX_LINES],
            more_lines=max(0, len(kinds) - MAX_LINES),
        )

    return preview


def _of_contents(selection: Selection) -> Preview:
    rows = Quarantine.objects.using(selection.using).filter(pk__in=selection.ids[:MAX_LINES])
    found = siblings([row.pk for row in rows], selection.using)
    lines = [(str(row), found[row.pk].quarantined) for row in rows]
    return Preview(
        ready=len(selection.ids), others={}, lines=lines, more_lines=max(0, len(selection.ids) - MAX_LINES)
    )


def _of_queues(selection: Selection) -> Preview:
    names = selection.ids[:MAX_LINES]
    return Preview(
        ready=len(selection.ids),
        others={},
        lines=[(name, "") for name in names],
        more_lines=max(0, len(selection.ids) - MAX_LINES),
    )


def _of_workers(selection: Selection) -> Preview:
    ids = selection.ids[:MAX_LINES]
    found = Worker.objects.using(selection.using).only("in_flight", "capacity").in_bulk(list(ids))
    busy = {one: _("%(number)s in flight") % {"number": worker.in_flight} for one, worker in found.items()}
    return Preview(
        ready=len(selection.ids),
        others={},
        lines=[(one, busy.get(one, "")) for one in ids],
        more_lines=max(0, len(selection.ids) - MAX_LINES),
    )


REDRIVE_JOBS = Operation(
    name=REDRIVE.name,
    permission=REDRIVE.permission,
    label=_("Redrive job"),
    action=_("Redrive selected jobs"),
    effect=_("They become available and run again. Their history stays."),
    done=ngettext_lazy("%(count)s job redriven.", "%(count)s jobs redriven.", "count"),
    run=redrive,
    preview=_of_jobs(REDRIVE),
    verb=REDRIVE,
    takes_attempts=True,
)
PROMOTE_JOBS = Operation(
    name=PROMOTE.name,
    permission=PROMOTE.permission,
    label=_("Run now"),
    action=_("Make selected jobs available now"),
    effect=_("They become available at once, without waiting for their time."),
    done=ngettext_lazy("%(count)s job made available.", "%(count)s jobs made available.", "count"),
    run=promote,
    preview=_of_jobs(PROMOTE),
    verb=PROMOTE,
)
CANCEL_JOBS = Operation(
    name=CANCEL.name,
    permission=CANCEL.permission,
    label=_("Cancel job"),
    action=_("Cancel selected jobs"),
    effect=_(
        "They will not run. A running job loses its lease: its handler is told to stop, and its result is refused."
    ),
    done=ngettext_lazy("%(count)s job cancelled.", "%(count)s jobs cancelled.", "count"),
    run=cancel,
    preview=_of_jobs(CANCEL),
    verb=CANCEL,
    dangerous=True,
)
DISCARD_JOBS = Operation(
    name=DISCARD.name,
    permission=DISCARD.permission,
    label=_("Discard job"),
    action=_("Discard selected jobs"),
    effect=_("They are deleted with their payloads and attempts. This cannot be undone."),
    done=ngettext_lazy("%(count)s job discarded.", "%(count)s jobs discarded.", "count"),
    run=discard,
    preview=_of_jobs(DISCARD),
    verb=DISCARD,
    dangerous=True,
)
RELEASE_JOBS = Operation(
    name=RELEASE.name,
    permission=RELEASE.permission,
    label=_("Release content"),
    action=_("Release selected jobs from quarantine"),
    effect=_("Their content is vouched for: all quarantined jobs with the same content become available."),
    done=ngettext_lazy("%(count)s content released.", "%(count)s contents released.", "count"),
    run=release_content_of,
    preview=_of_jobs(RELEASE),
    verb=RELEASE,
)
RELEASE_CONTENTS = Operation(
    name=RELEASE.name,
    permission=RELEASE.permission,
    label=_("Release content"),
    action=_("Release selected contents"),
    effect=_("The content may be enqueued and run again, and its quarantined jobs become available."),
    done=ngettext_lazy("%(count)s content released.", "%(count)s contents released.", "count"),
    run=release,
    preview=_of_contents,
)
RELEASE_CANARIES = Operation(
    name="canary",
    permission=RELEASE.permission,
    label=_("Release one canary"),
    action=_("Release one canary of selected contents"),
    effect=_(
        "The oldest quarantined job of each content runs ahead, alone. When it succeeds the others follow; "
        "when it crashes its worker it comes straight back."
    ),
    done=ngettext_lazy("%(count)s canary sent.", "%(count)s canaries sent.", "count"),
    run=partial(release, canary=True),
    preview=_of_contents,
)
PAUSE_QUEUES = Operation(
    name="pause",
    permission=PAUSE_PERMISSION,
    label=_("Pause queue"),
    action=_("Pause selected queues"),
    effect=_("No job of them starts until they are resumed. Running jobs finish; enqueue goes on."),
    done=ngettext_lazy("%(count)s queue paused.", "%(count)s queues paused.", "count"),
    run=pause,
    preview=_of_queues,
)
RESUME_QUEUES = Operation(
    name="resume",
    permission=PAUSE_PERMISSION,
    label=_("Resume queue"),
    action=_("Resume selected queues"),
    effect=_("Their jobs start again."),
    done=ngettext_lazy("%(count)s queue resumed.", "%(count)s queues resumed.", "count"),
    run=resume,
    preview=_of_queues,
)


def _of_fleet(order: Command, label: Any, action: Any, effect: Any, *, dangerous: bool = False) -> Operation:
    return Operation(
        name=order.value,
        permission=COMMAND_PERMISSION,
        label=label,
        action=action,
        effect=effect,
        done=ngettext_lazy("%(count)s worker told.", "%(count)s workers told.", "count"),
        run=partial(command, command=order),
        preview=_of_workers,
        dangerous=dangerous,
    )


COMMAND_WORKERS = (
    _of_fleet(
        Command.QUIET,
        _("Quiet"),
        _("Quiet selected workers"),
        _("They admit nothing more until they are resumed. What runs goes on."),
    ),
    _of_fleet(Command.RESUME, _("Resume"), _("Resume selected workers"), _("They admit jobs again.")),
    _of_fleet(
        Command.RESTART,
        _("Restart"),
        _("Restart selected workers"),
        _("They finish what runs, however long it takes; then a fresh process takes their place."),
    ),
    _of_fleet(
        Command.RESIGN,
        _("Resign duties"),
        _("Make selected workers resign their duties"),
        _("They give their duties back and take none again until they are restarted. Jobs go on."),
    ),
    _of_fleet(
        Command.TERMINATE,
        _("Terminate"),
        _("Terminate selected workers"),
        _("They stop as on SIGTERM, and do not come back. What does not finish in time is given back unharmed."),
        dangerous=True,
    ),
)
