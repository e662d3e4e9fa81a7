"""Pause and resume: whether a queue admits anything."""

from __future__ import annotations

from collections.abc import Iterable

from headgate_django.control.authority import Actor, require
from headgate_django.control.record import record, recorded_transaction
from headgate_django.control.report import ALREADY_PAUSED, NOT_PAUSED, Report
from headgate_django.control.sweep import tell
from headgate_django.core.envelope import check_key
from headgate_django.lifecycle.wakeup import notify_after_commit
from headgate_django.models.queue import Queue
from headgate_django.models.store import alias, retrying_locked

PAUSE_PERMISSION = "pause_queue"


def pause(names: Iterable[str], *, actor: Actor | None, using: str = "") -> Report:
    """Stop admitting from these queues; running jobs finish, and enqueue goes on. Raises PermissionRefused.

    A queue without a policy row gets one. Raises InvalidJob for a name that cannot be a queue's.
    """
    return _set(names, True, actor, using)


def resume(names: Iterable[str], *, actor: Actor | None, using: str = "") -> Report:
    """Admit from these queues again, and wake the workers. Raises PermissionRefused."""
    return _set(names, False, actor, using)


def _set(names: Iterable[str], paused: bool, actor: Actor | None, using: str) -> Report:
    require(actor, PAUSE_PERMISSION)
    using = using or alias()
    report = Report(verb="pause" if paused else "resume")
    # In the order of their names, as the gate locks policies.
    for name in sorted(set(names)):
        check_key("queue", name, required=True)
        report += retrying_locked(using, lambda name=name: _set_one(name, paused, actor, using))  # type: ignore[misc]
    tell(report, actor)
    return report


def _set_one(name: str, paused: bool, actor: Actor | None, using: str) -> Report:
    verb = "pause" if paused else "resume"
    with recorded_transaction(using, actor):
        queues = Queue.objects.using(using)
        if paused:
            queues.get_or_create(name=name)
        queue = queues.select_for_update().filter(name=name).first()
        if queue is None or queue.paused == paused:
            return Report(verb=verb, skipped={ALREADY_PAUSED if paused else NOT_PAUSED: 1})
        queues.filter(name=name).update(paused=paused)
        record(actor, [queue], "Paused." if paused else "Resumed.")
        if not paused:
            notify_after_commit([name], using)
    return Report(verb=verb, done=1)
