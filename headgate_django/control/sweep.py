"""Take a verb over a selection: short transactions, one after the other, each recorded, none that can run away."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from django.db import OperationalError, connections

from headgate_django.control.authority import Actor, require
from headgate_django.control.record import record, recorded_transaction
from headgate_django.control.report import BUSY, CONTENT_QUARANTINED, GONE, Report
from headgate_django.control.selection import Selection, batches, select
from headgate_django.control.verb import Verb
from headgate_django.core.states import State
from headgate_django.models.job import Job, JobQuerySet
from headgate_django.models.quarantine import Quarantine
from headgate_django.models.store import is_contention, retrying_locked

logger = logging.getLogger("headgate_django.control")

Act = Callable[[JobQuerySet], int]
Refuse = Callable[[Sequence[Job]], Mapping[str, str]]
"""Why some of these jobs must not be done: id to reason. Runs inside the batch's transaction."""


def sweep(
    verb: Verb,
    jobs: JobQuerySet | Iterable[str],
    act: Act,
    *,
    actor: Actor | None,
    using: str = "",
    note: str = "",
    refuse: Refuse | None = None,
) -> Report:
    """Apply ``act`` to the selected jobs that stand where the verb starts, 500 a transaction.

    Raises PermissionRefused before anything is read. A batch that another writer holds back too long is refused
    as busy, with all that follow it; what is done by then stays done.
    """
    require(actor, verb.permission)
    selection = select(jobs, using=using)
    report = Report(verb=verb.name, more=selection.more)
    message = f"{verb.past}{note}."
    for start, batch in _numbered(selection):
        try:
            report += retrying_locked(
                selection.using,
                lambda ids=batch: _batch(verb, ids, act, refuse, message, actor, selection.using),  # type: ignore[misc]
            )
        except OperationalError as error:
            if connections[selection.using].in_atomic_block or not is_contention(error):
                raise
            report += Report(verb=verb.name, refused={BUSY: len(selection.ids) - start})
            break
    tell(report, actor)
    return report


def held_by_quarantine(jobs: Sequence[Job]) -> dict[str, str]:
    """Refuse jobs whose content is quarantined: the gate would take them out again at once."""
    if not jobs:
        return {}
    held = Quarantine.objects.using(jobs[0]._state.db).in_force()
    held = held.filter(fingerprint__in={job.fingerprint for job in jobs})
    fingerprints = set(held.values_list("fingerprint", flat=True))
    return {job.pk: CONTENT_QUARANTINED for job in jobs if job.fingerprint in fingerprints}


def tell(report: Report, actor: Actor | None) -> None:
    """One line in the log of the process, also where the admin is not installed."""
    logger.info("%s (by %s)", report, "the system" if actor is None else f"user {actor.pk}")


def _numbered(selection: Selection) -> Iterable[tuple[int, Sequence[str]]]:
    start = 0
    for batch in batches(selection.ids):
        yield start, batch
        start += len(batch)


def _batch(
    verb: Verb,
    ids: Sequence[str],
    act: Act,
    refuse: Refuse | None,
    message: str,
    actor: Actor | None,
    using: str,
) -> Report:
    with recorded_transaction(using, actor):
        # Locked in the order of their ids, as every other verb does; what is counted is then what is done.
        rows = Job.objects.using(using).filter(pk__in=ids).order_by("pk").select_for_update()
        found = list(rows.only("kind", "state", "fingerprint", "max_attempts"))
        standing = [job for job in found if verb.starts_from(State(job.state))]
        skipped = Counter(job.state for job in found if not verb.starts_from(State(job.state)))
        if len(found) < len(ids):
            skipped[GONE] = len(ids) - len(found)
        refused = dict(refuse(standing)) if refuse else {}
        ready = [job for job in standing if job.pk not in refused]
        report = Report(verb=verb.name, skipped=dict(skipped), refused=dict(Counter(refused.values())))
        if ready:
            done = act(Job.objects.using(using).filter(pk__in=[job.pk for job in ready]))
            record(actor, ready, message, deletion=verb.deletes)
            report = replace(report, done=done)
    return report
