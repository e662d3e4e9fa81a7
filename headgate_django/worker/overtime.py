"""Runs whose time is up: asked to stop, then interrupted, then given up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.core.states import Event
from headgate_django.exceptions import Interrupted
from headgate_django.jobs import registry
from headgate_django.jobs.context import CancelReason, Context
from headgate_django.worker import runner
from headgate_django.worker.run import Place, Run


class Overtime:
    """Goes after runs step by step. A step is due ``grace`` seconds after the one before.

    Timeout and deadline: the context is cancelled and Interrupted raised at once; then the run is given up. A lost
    lease: the context is cancelled; then Interrupted is raised; then the run is given up. Given up means killed,
    in a process of its own; in a thread or on the loop it means that its slot is written off as stuck.
    """

    def __init__(self, grace: float, cancel: Callable[[Run, bool], None], kill: Callable[[Run], None]) -> None:
        self._grace = grace
        self._cancel = cancel
        self._kill = kill

    def enforce(self, runs: Iterable[Run]) -> list[Run]:
        """Take every step that is due; the runs that are stuck from now on."""
        now = time.monotonic()
        return [run for run in list(runs) if self._step(run, now)]

    def lose(self, run: Run) -> None:
        """The lease is gone: ask the handler to stop."""
        run.lost = True
        run.context.cancel(CancelReason.LEASE_LOST)
        run.cancelled_at = run.cancelled_at or time.monotonic()
        self._cancel(run, False)

    def until_next_step(self, runs: Iterable[Run]) -> float:
        """Seconds until a step may be due; infinite if there is none."""
        return min((self._due(run) for run in runs), default=float("inf")) - time.monotonic()

    def _due(self, run: Run) -> float:
        if run.cancelled_at is None:
            return run.limit[0] if run.limit else float("inf")
        return run.cancelled_at + self._grace

    def _step(self, run: Run, now: float) -> bool:
        if now < self._due(run):
            return False
        if not run.raised:
            if run.cancelled_at is None and run.limit is not None:
                run.context.cancel(run.limit[1])
            run.cancelled_at, run.raised = now, True
            self._cancel(run, True)
            return False
        if run.place is Place.CELL:
            run.cancelled_at = now  # asked again after another grace, should the first kill get lost
            self._kill(run)
            return False
        return True


def cut_short(claim: Claim, context: Context, note: str = "") -> Outcome:
    """The outcome of a run that did not end by itself; ``note`` is added to its message."""
    handler = registry.find(claim.kind)
    if handler is None:  # nothing was called, so nothing was cut short: it may run again
        return Outcome(event=Event.INTERRUPT)
    outcome = runner.judge(handler, claim, context, Interrupted(note))
    if outcome.failure is None or not note:
        return outcome
    message = f"{outcome.failure.message}; {note}"
    return replace(outcome, failure=replace(outcome.failure, message=message, traceback=""))
