"""What a running handler sees of its job: ask for a parameter called ``context``."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from functools import cached_property

from headgate_django.core.durations import from_ms
from headgate_django.core.envelope import INT32_MAX
from headgate_django.core.outcomes import Claim
from headgate_django.exceptions import InvalidJob


class CancelReason(StrEnum):
    """Why a run is asked to stop."""

    TIMEOUT = "timeout"
    LEASE_LOST = "lease lost"
    SHUTDOWN = "shutdown"


class Context:
    """One run. ``attempt`` is 1 for the first try; snoozes and interruptions do not raise it."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._cancelled = threading.Event()
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

    def wait(self, seconds: float) -> bool:
        """Sleep up to ``seconds``, less when cancelled; whether it was cancelled."""
        return self._cancelled.wait(seconds)

    def report_weight(self, actual: int) -> None:
        """Say what the job really cost its rate class, 0 included; the last call counts.

        When the run ends the difference to the job's ``weight`` is given back to the budgets, or drawn from them.
        Raises InvalidJob for anything but an int from 0 to 2147483647.
        """
        if isinstance(actual, bool) or not isinstance(actual, int) or not 0 <= actual <= INT32_MAX:
            raise InvalidJob("actual", f"must be an int between 0 and {INT32_MAX}, not {actual!r}")
        self.actual_weight = actual

    def cancel(self, reason: CancelReason) -> None:
        """Ask the handler to stop. Called by the worker."""
        if not self._cancelled.is_set():
            self.cancel_reason = reason
            self._cancelled.set()
