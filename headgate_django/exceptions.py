"""Every exception of the package.

::

    HeadgateError
    ├── ConfigurationError            a setting, option or declaration is wrong (also ImproperlyConfigured)
    │   └── DuplicateKind             two handlers claim one kind
    ├── EnqueueError                  the job was not stored; nothing was written
    │   ├── InvalidJob                an envelope field is out of range       (also ValueError)
    │   │   ├── Unserializable        an argument the codec refuses           (also TypeError)
    │   │   └── PayloadTooLarge
    │   ├── IdConflict                the id exists with other content
    │   ├── Quarantined               the fingerprint is quarantined
    │   └── QueueFull                 max_unfinished_jobs is reached
    ├── IllegalTransition             the law has no such row, or the job is not where the verb starts
    │   └── LeaseLost                 the claim no longer holds the lease it writes under
    ├── PermissionRefused             the operator lacks the right for a verb
    ├── TransactionLeft               a handler returned with a transaction open or broken
    └── Outcome                       raised by handlers to choose how the run ends
        ├── Retry, Skip, Revoke, Snooze, RateLimited, Undecodable

    Interrupted                       a BaseException, raised inside a handler that must stop
"""

from __future__ import annotations

from datetime import timedelta

Duration = float | int | timedelta
"""Seconds as a number, or a timedelta."""


class HeadgateError(Exception):
    """Base of all errors of this package."""


class ConfigurationError(HeadgateError):
    """A setting, an option or a declaration is wrong. The message names it."""


class DuplicateKind(ConfigurationError):
    """Two handlers claim one kind."""


class EnqueueError(HeadgateError):
    """The job was not stored and nothing was written."""


class InvalidJob(EnqueueError, ValueError):
    """A field of the envelope is out of range. ``field`` names it."""

    def __init__(self, field: str, problem: str, *, item: int | None = None) -> None:
        self.field, self.problem, self.item = field, problem, item
        where = field if item is None else f"item {item}: {field}"
        super().__init__(f"{where}: {problem}")

    def at_item(self, item: int) -> InvalidJob:
        """The same error, naming the item of a batch."""
        return type(self)(self.field, self.problem, item=item)


class Unserializable(InvalidJob, TypeError):
    """An argument the codec refuses; ``field`` is its path, such as ``order.items[3].price``."""


class PayloadTooLarge(InvalidJob):
    """The encoded payload is above the limit."""


class IdConflict(EnqueueError):
    """A job with this id exists, and its kind, fingerprint or queue differ."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"id conflict: a job with id {job_id!r} and other content exists")


class Quarantined(EnqueueError):
    """This content has crashed workers and is refused until an operator releases it."""

    def __init__(self, fingerprint: str, kind: str) -> None:
        self.fingerprint, self.kind = fingerprint, kind
        super().__init__(f"{kind}: fingerprint {fingerprint} is quarantined; release it first")


class QueueFull(EnqueueError):
    """The queue's ``max_unfinished_jobs`` leaves no room for the whole call."""

    def __init__(self, queue: str, limit: int, current: int, incoming: int) -> None:
        self.queue, self.limit, self.current, self.incoming = queue, limit, current, incoming
        super().__init__(f"queue {queue!r} is full: {current} unfinished + {incoming} new > {limit}")


class IllegalTransition(HeadgateError):
    """The law knows no such transition from where the job stands. The row is unchanged."""

    def __init__(self, job_id: str, state: str, event: str, hint: str = "") -> None:
        self.job_id, self.state, self.event = job_id, state, event
        super().__init__(f"job {job_id}: cannot {event} from {state}" + (f"; {hint}" if hint else ""))


class LeaseLost(IllegalTransition):
    """The claim no longer holds the lease: somebody else may be running the job. Nothing was written."""

    def __init__(self, job_id: str, event: str) -> None:
        super().__init__(job_id, "running", event, "the lease of this claim is no longer current")


class PermissionRefused(HeadgateError):
    """The operator lacks the permission that the verb asks for."""

    def __init__(self, permission: str) -> None:
        self.permission = permission
        super().__init__(f"this needs the permission {permission!r}")


class TransactionLeft(HeadgateError):
    """A handler returned while a transaction of its own was open or broken; what it did there is rolled back.

    Recorded as the failure of the run. The message says which connection, and what was left.
    """


class Outcome(HeadgateError):
    """Raised by a handler to choose how its run ends."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason)


class Retry(Outcome):
    """The run failed; try again after ``delay`` (default: the backoff). Costs an attempt."""

    def __init__(self, reason: str = "", *, delay: Duration | None = None) -> None:
        self.delay = delay
        super().__init__(reason)


class Skip(Outcome):
    """Give up now: the job is archived, its attempt count stays."""


class Revoke(Outcome):
    """The job is void: delete it without a trace."""


class Snooze(Outcome):
    """Run again after ``delay``. Costs nothing."""

    def __init__(self, delay: Duration, reason: str = "") -> None:
        self.delay = delay
        super().__init__(reason)


class RateLimited(Outcome):
    """The far end said "too many": run again after ``retry_after``. Costs nothing.

    Unless ``hold_class`` is False, no other job of the rate class starts before then either: the next ones would
    only be told the same.
    """

    def __init__(self, retry_after: Duration, reason: str = "", *, hold_class: bool = True) -> None:
        self.retry_after = retry_after
        self.hold_class = hold_class
        super().__init__(reason)


class Undecodable(Outcome):
    """The payload cannot be understood by this code. The job is kept for an operator."""


class Interrupted(BaseException):
    """Raised inside a handler whose run timed out, passed its deadline or was cancelled.

    Clean up and let it pass. It is no Exception, so that ``except Exception`` does not swallow it.
    """
