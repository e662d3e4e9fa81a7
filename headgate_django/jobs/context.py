"""What a running handler sees of its job: ask for a parameter called ``context``."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

from headgate_django.core.durations import from_ms
from headgate_django.core.envelope import INT32_MAX
from headgate_django.core.outcomes import Claim, Progress
from headgate_django.core.text import storable
from headgate_django.exceptions import Interrupted, InvalidJob

INT64_MAX = 2**63 - 1
MAX_NOTE = 255

Report = Callable[[str, Any], None]
"""Called with ("progress", (done, total, note)) and ("weight", actual), on the handler's thread."""


class CancelReason(StrEnum):
    """Why a run is asked to stop."""

    TIMEOUT = "timeout"
    DEADLINE = "deadline"
    LEASE_LOST = "lease lost"
    SHUTDOWN = "shutdown"


class Context:
    """One run. ``attempt`` is 1 for the first try; snoozes and interruptions do not raise it.

    May be used from any thread. It never touches the database.
    """

    def __init__(self, claim: Claim, report: Report | None = None) -> None:
        self._claim = claim
        self._report = report
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._progress: Progress | None = None
        self.cancel_reason = ""
        self.actual_weight: int | None = None

    def __repr__(self) -> str:
        return f"<Context of {self._claim.kind} {self.job_id} attempt {self.attempt}>"

    @property
    def job_id(self) -> str:
        """The job's id: stable over all runs, so it serves as an idempotency key."""
        return self._claim.id

    @property
    def kind(self) -> str:
        """The kind under which the job was stored."""
        return self._claim.kind

    @property
    def queue(self) -> str:
        """The queue it came from."""
        return self._claim.queue

    @property
    def partition_key(self) -> str:
        """The tenant it belongs to."""
        return self._claim.partition_key

    @property
    def attempt(self) -> int:
        """Which try this is: returned failures + 1."""
        return self._claim.attempt + 1

    @property
    def crash_attempt(self) -> int:
        """How often a worker was lost while running this job."""
        return self._claim.crash_attempt

    @property
    def max_attempts(self) -> int:
        """Failures after which the job is archived."""
        return self._claim.max_attempts

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The headers given at enqueue."""
        headers: dict[str, str] = json.loads(self._claim.headers)
        return headers

    @property
    def deadline(self) -> datetime | None:
        """The instant after which the job is worth nothing, or None."""
        return from_ms(self._claim.deadline_ms) if self._claim.deadline_ms else None

    @property
    def cancelled(self) -> bool:
        """Whether the run should stop: timed out, cancelled, or its lease was lost. ``cancel_reason`` says why."""
        return self._cancelled.is_set()

    def raise_if_cancelled(self) -> None:
        """Raise Interrupted if the run should stop: a place at which a long handler may end cleanly."""
        if self._cancelled.is_set():
            raise Interrupted(str(self.cancel_reason))

    def wait(self, seconds: float) -> bool:
        """Sleep up to ``seconds``, less when cancelled; whether it was cancelled."""
        return self._cancelled.wait(seconds)

    def progress(self, done: int, total: int | None = None, note: str = "") -> None:
        """Say how far the run has come: ``context.progress(7, 120, "rows")``. Cheap, however often it is called.

        The worker stores the newest report about once a second. ``note`` is cut to 255 characters. Raises
        InvalidJob for a number that is no int from 0 to 2**63-1, and for a note that is no text.
        """
        total = 0 if total is None else total
        _check("done", done, INT64_MAX)
        _check("total", total, INT64_MAX)
        if not isinstance(note, str):
            raise InvalidJob("note", f"must be a str, not {type(note).__name__}")
        newest = Progress(done, total, storable(note[:MAX_NOTE])[:MAX_NOTE])
        with self._lock:
            self._progress = newest
        if self._report is not None:
            self._report("progress", (newest.done, newest.total, newest.note))

    def take_progress(self) -> Progress | None:
        """The newest progress that was not taken yet, or None. Called by the worker."""
        with self._lock:
            newest, self._progress = self._progress, None
        return newest

    def report_weight(self, actual: int) -> None:
        """Say what the job really cost its rate class, 0 included; the last call counts.

        When the run ends the difference to the job's ``weight`` is given back to the budgets, or drawn from them.
        Raises InvalidJob for anything but an int from 0 to 2147483647.
        """
        _check("actual", actual, INT32_MAX)
        self.actual_weight = actual
        if self._report is not None:
            self._report("weight", actual)

    def cancel(self, reason: CancelReason) -> None:
        """Ask the handler to stop; the first reason stays. Called by the worker."""
        with self._lock:
            if not self._cancelled.is_set():
                self.cancel_reason = reason
                self._cancelled.set()


def _check(name: str, number: object, most: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= most:
        given = "one out of range" if isinstance(number, int) else repr(number)[:100]
        raise InvalidJob(name, f"must be an int between 0 and {most}, not {given}")
