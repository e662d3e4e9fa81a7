"""Release: vouch for content that has crashed workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from headgate_django.control.authority import Actor, require
from headgate_django.control.record import record, recorded_transaction
from headgate_django.control.report import GONE, Report
from headgate_django.control.selection import batches, select
from headgate_django.control.sweep import sweep, tell
from headgate_django.control.verb import RELEASE
from headgate_django.core.states import State
from headgate_django.lifecycle import release as lifecycle
from headgate_django.models.job import Job, JobQuerySet
from headgate_django.models.quarantine import Quarantine
from headgate_django.models.store import alias, retrying_locked


def release(fingerprints: Iterable[str], *, actor: Actor | None, using: str = "") -> Report:
    """Lift quarantines and make their jobs available; ``done`` counts contents, ``freed`` counts jobs.

    The quarantine is lifted first: the gate would otherwise take the jobs out again. Jobs left over after 10,000
    (``more``), or when the database was busy, are freed by releasing the same content again. Raises
    PermissionRefused.
    """
    require(actor, RELEASE.permission)
    using = using or alias()
    report = Report(verb=RELEASE.name)
    for fingerprint in dict.fromkeys(fingerprints):
        report += _release(fingerprint, actor, using)
    tell(report, actor)
    return report


def release_content_of(jobs: JobQuerySet | Iterable[str], *, actor: Actor | None, using: str = "") -> Report:
    """Release the content of the selected quarantined jobs, and so every job with the same content."""
    require(actor, RELEASE.permission)
    selection = select(jobs, using=using)
    found = [row for batch in batches(selection.ids) for row in _contents(batch, selection.using)]
    contents = [fingerprint for state, fingerprint in found if RELEASE.starts_from(State(state))]
    report = release(contents, actor=actor, using=selection.using)
    others = [state for state, _ in found if not RELEASE.starts_from(State(state))]
    skipped = {state: others.count(state) for state in dict.fromkeys(others)}
    if len(found) < len(selection.ids):
        skipped[GONE] = len(selection.ids) - len(found)
    return replace(report + Report(verb=RELEASE.name, skipped=skipped), more=report.more or selection.more)


def _contents(ids: Sequence[str], using: str) -> Iterator[tuple[str, str]]:
    yield from Job.objects.using(using).filter(pk__in=ids).values_list("state", "fingerprint")


def _release(fingerprint: str, actor: Actor | None, using: str) -> Report:
    lifted = retrying_locked(using, lambda: _lift(fingerprint, actor, using))
    quarantined = Job.objects.using(using).in_state(State.QUARANTINED).filter(fingerprint=fingerprint)
    jobs = sweep(RELEASE, quarantined.order_by("pk"), lifecycle.release_jobs, actor=actor, using=using)
    if not lifted and not jobs.done:
        return Report(verb=RELEASE.name, skipped={GONE: 1})
    return Report(verb=RELEASE.name, done=1, freed=jobs.done, refused=jobs.refused, more=jobs.more)


def _lift(fingerprint: str, actor: Actor | None, using: str) -> bool:
    with recorded_transaction(using, actor):
        row = Quarantine.objects.using(using).filter(fingerprint=fingerprint).first()
        if row is None:
            return False
        record(actor, [row], "Released.", deletion=True)
        return lifecycle.lift(fingerprint, using=using)
