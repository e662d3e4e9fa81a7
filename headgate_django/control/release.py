"""Release: vouch for content that has crashed workers, or let one job of it run ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from headgate_django.control.authority import Actor, require
from headgate_django.control.record import record, recorded_transaction
from headgate_django.control.report import CANARY_IS_OUT, GONE, NO_JOB, Report
from headgate_django.control.selection import batches, select
from headgate_django.control.sweep import sweep, tell
from headgate_django.control.verb import RELEASE
from headgate_django.core.states import State
from headgate_django.lifecycle import release as lifecycle
from headgate_django.models.job import Job, JobQuerySet
from headgate_django.models.quarantine import Quarantine
from headgate_django.models.store import alias, retrying_locked


def release(fingerprints: Iterable[str], *, actor: Actor | None, canary: bool = False, using: str = "") -> Report:
    """Lift quarantines and make their jobs available; ``done`` counts contents, ``freed`` counts jobs.

    The quarantine is lifted first: the gate would otherwise take the jobs out again. Jobs left over after 10,000
    (``more``), or when the database was busy, are freed by releasing the same content again. With ``canary`` only
    the oldest job of each content becomes available; when it succeeds, a duty frees the rest. Raises
    PermissionRefused.
    """
    require(actor, RELEASE.permission)
    using = using or alias()
    report = Report(verb=RELEASE.name)
    for fingerprint in dict.fromkeys(fingerprints):
        report += (_send_canary if canary else _release)(fingerprint, actor, using)
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


def _send_canary(fingerprint: str, actor: Actor | None, using: str) -> Report:
    def work() -> Report:
        with recorded_transaction(using, actor):
            job_id = lifecycle.send_canary(fingerprint, using=using)
            row = Quarantine.objects.using(using).in_force().filter(fingerprint=fingerprint).first()
            if row is None:
                return Report(verb=RELEASE.name, skipped={GONE: 1})
            if not job_id:
                return Report(verb=RELEASE.name, refused={CANARY_IS_OUT if row.canary_job_id else NO_JOB: 1})
            record(actor, [row], f"Canary sent: job {job_id}.")
            record(actor, list(Job.objects.using(using).filter(pk=job_id)), "Released as canary.")
            return Report(verb=RELEASE.name, done=1, freed=1)

    return retrying_locked(using, work)


def _lift(fingerprint: str, actor: Actor | None, using: str) -> bool:
    with recorded_transaction(using, actor):
        row = Quarantine.objects.using(using).filter(fingerprint=fingerprint).first()
        if row is None:
            return False
        record(actor, [row], "Released.", deletion=True)
        return lifecycle.lift(fingerprint, using=using)
