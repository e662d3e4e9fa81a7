"""The fleet: which workers there are, how busy they are together, and commands to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Q

from headgate_django.control.authority import Actor, require
from headgate_django.control.record import record, recorded_transaction
from headgate_django.control.report import GONE, NOT_ALIVE, Report
from headgate_django.control.selection import batches, select
from headgate_django.control.sweep import tell
from headgate_django.core.commands import Command
from headgate_django.lifecycle.wakeup import notify_workers
from headgate_django.models import clock
from headgate_django.models.fleet import Worker
from headgate_django.models.store import alias, retrying_locked

COMMAND_PERMISSION = "command_worker"
MAX_WORKERS = 2_000
"""How many workers are looked at, and told, in one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The workers of one moment, the latest heartbeat first. Sums are over those that are alive.

    ``more`` says that there were more rows than are looked at.
    """

    workers: Sequence[Worker]
    at_ms: int
    more: bool = False

    @property
    def live(self) -> list[Worker]:
        """Those that were heard of lately."""
        return [worker for worker in self.workers if worker.alive_at(self.at_ms)]

    @property
    def stale(self) -> int:
        """How many were not."""
        return len(self.workers) - len(self.live)

    @property
    def capacity(self) -> int:
        """All slots."""
        return sum(worker.capacity for worker in self.live)

    @property
    def in_flight(self) -> int:
        """Slots in use."""
        return sum(worker.in_flight for worker in self.live)

    @property
    def utilisation(self) -> float | None:
        """The share of all slots that is in use: a ratio of sums, so that large workers count for more."""
        return self.in_flight / self.capacity if self.capacity else None

    @property
    def empty_poll_ratio(self) -> float | None:
        """The share of all recent polls that found nothing."""
        polls = sum(worker.recent_polls for worker in self.live)
        return sum(worker.recent_empty_polls for worker in self.live) / polls if polls else None

    @property
    def served(self) -> Mapping[str, int]:
        """Each queue that is named by a live worker, and by how many. ``*`` is every queue."""
        return dict(sorted(Counter(queue for worker in self.live for queue in worker.queues).items()))


def fleet(*, using: str = "", current_jobs: bool = False) -> Fleet:
    """The workers in the register; what each of them runs only if asked for."""
    using = using or alias()
    rows = Worker.objects.using(using).order_by("-heartbeat_at_ms", "id")
    found = list((rows if current_jobs else rows.defer("current_jobs"))[: MAX_WORKERS + 1])
    return Fleet(workers=found[:MAX_WORKERS], at_ms=clock.now_ms(using), more=len(found) > MAX_WORKERS)


def command(names: Iterable[str], command: Command, *, actor: Actor | None, using: str = "") -> Report:
    """Leave a command for these workers, by id, or by the name of a supervisor: all its processes.

    They obey at their next heartbeat, on PostgreSQL at once, and acknowledge in their row. A later command
    replaces one that was not obeyed yet. Raises PermissionRefused.
    """
    require(actor, COMMAND_PERMISSION)
    using, command = using or alias(), Command(command)
    ids, gone = processes(names, using=using)
    report = Report(verb=command.value, skipped={GONE: gone} if gone else {}, more=len(ids) > MAX_WORKERS)
    for batch in batches(ids[:MAX_WORKERS]):
        report += retrying_locked(using, lambda ids=batch: _command(ids, command, actor, using))  # type: ignore[misc]
    tell(report, actor)
    return report


def processes(names: Iterable[str], *, using: str = "") -> tuple[list[str], int]:
    """The ids of the workers that are so named, or whose supervisor is; and how many of the names are nobody's."""
    selection = select(names, using=using)
    found: dict[str, str] = {}
    for batch in batches([name for name in selection.ids if name]):
        workers = Worker.objects.using(selection.using).filter(Q(pk__in=batch) | Q(supervisor__in=batch))
        found.update(workers.order_by("pk").values_list("pk", "supervisor"))
    known = {*found, *found.values()}
    return list(found), sum(name not in known for name in selection.ids)


def waiting_for(ids: Iterable[str], command: Command, *, using: str = "") -> list[str]:
    """Those of the workers that have not acknowledged the command.

    One that has left the register has obeyed, if it was told to end.
    """
    selection = select(ids, using=using)
    ended = command in (Command.TERMINATE, Command.RESTART)
    waiting: list[str] = []
    for batch in batches(selection.ids):
        workers = Worker.objects.using(selection.using).defer("current_jobs").in_bulk(list(batch))
        waiting += [one for one in batch if not (workers[one].has_obeyed(command) if one in workers else ended)]
    return waiting


def _command(ids: Sequence[str], command: Command, actor: Actor | None, using: str) -> Report:
    with recorded_transaction(using, actor):
        workers = Worker.objects.using(using)
        found = list(workers.filter(pk__in=ids).order_by("pk").select_for_update().defer("current_jobs"))
        now_ms = clock.now_ms(using)
        live = [worker for worker in found if worker.alive_at(now_ms)]
        workers.tell([worker.pk for worker in live], command)
        record(actor, live, f"Told to {command}.")
        notify_workers([worker.pk for worker in live], using)
    skipped = {GONE: len(ids) - len(found), NOT_ALIVE: len(found) - len(live)}
    return Report(
        verb=command.value,
        done=len(live),
        skipped={reason: count for reason, count in skipped.items() if count},
    )
