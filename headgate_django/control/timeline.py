"""One job's story: what happened, when, and by whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models.functions import Left, Length
from django.utils.translation import gettext_lazy as _

from headgate_django.control.backlog import DUE
from headgate_django.control.record import entries
from headgate_django.core.durations import from_ms
from headgate_django.core.states import State
from headgate_django.models.attempt import Attempt
from headgate_django.models.job import Job

MAX_ENTRIES = 50
MAX_RUNS = 100
MAX_MESSAGE, MAX_TRACEBACK = 2_000, 20_000
"""Characters of one attempt that are read; the rest stays in the database."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened. ``who`` is the operator, when one did it."""

    at: datetime
    what: Any
    detail: Any = ""
    who: str = ""


def attempts(job: Job) -> list[Any]:
    """The recorded runs, oldest first, with ``shown_message`` and ``shown_traceback`` cut by the database.

    Of the logs, which are private, only their length is read.
    """
    rows = Attempt.objects.using(job._state.db).filter(job_id=job.pk).order_by("number")
    return list(
        rows.defer("message", "traceback", "logs").annotate(
            shown_message=Left("message", MAX_MESSAGE),
            shown_traceback=Left("traceback", MAX_TRACEBACK),
            message_length=Length("message"),
            traceback_length=Length("traceback"),
            logs_length=Length("logs"),
        )[:MAX_RUNS]
    )


def timeline(job: Job, runs: Sequence[Attempt]) -> list[Moment]:
    """Enqueued, due, each run, the end, and what operators did; in the order of time."""
    moments = [*_beginning(job), *_runs(runs), *_end(job, runs), *_operators(job)]
    return sorted(moments, key=lambda moment: moment.at)


def _beginning(job: Job) -> Iterator[Moment]:
    yield Moment(from_ms(job.enqueued_at_ms), _("Enqueued"))
    waits = job.fence == 0 or State(job.state) in DUE
    if waits and job.scheduled_at_ms > job.enqueued_at_ms:
        yield Moment(from_ms(job.scheduled_at_ms), _("Due"))


def _end(job: Job, runs: Sequence[Attempt]) -> Iterator[Moment]:
    # A run that simply succeeded, or is not over, has no row of its own.
    if job.attempted_at_ms is not None and job.attempted_at_ms not in {run.started_at_ms for run in runs}:
        yield Moment(from_ms(job.attempted_at_ms), _("Started"), _run(job.fence, job.worker_id))
    if job.finalized_at_ms is not None:
        yield Moment(from_ms(job.finalized_at_ms), _(State(job.state).capitalize()))
    if job.deadline_ms:
        yield Moment(from_ms(job.deadline_ms), _("Deadline"))


def _runs(runs: Sequence[Attempt]) -> Iterator[Moment]:
    for run in runs:
        yield Moment(from_ms(run.started_at_ms), _("Started"), _run(run.number, run.worker_id))
        outcome = run.get_outcome_display()
        yield Moment(from_ms(run.finished_at_ms), _("Run ended"), f"{outcome} {run.error_class}".strip())


def _operators(job: Job) -> Iterator[Moment]:
    for entry in entries(job, MAX_ENTRIES):
        yield Moment(entry.action_time, entry.get_change_message(), who=entry.user.get_username())


def _run(number: int, worker_id: str) -> Any:
    return _("run %(number)d on %(worker)s") % {"number": number, "worker": worker_id or "?"}
