"""Options of ``@job`` and ``using()``: one table of names, checked with suggestions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

from headgate_django.conf import config
from headgate_django.core.durations import instant_ms, to_ms
from headgate_django.core.envelope import DEFAULT_QUEUE, Envelope, validate
from headgate_django.core.suggestion import suggestion
from headgate_django.exceptions import ConfigurationError, Duration, InvalidJob

OF_THE_HANDLER = (
    "kind", "aliases", "schema_version", "backoff", "retry_on", "skip_on", "isolated", "memory_limit", "atomic",
)  # fmt: skip
"""What ``@job`` takes besides these options: properties of the handler, the same for all of its jobs."""

Backoff = Callable[[BaseException, int], Duration | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything that routes one job. Durations are seconds or timedeltas."""

    queue: str = DEFAULT_QUEUE
    """Queue that workers choose by weight."""
    partition_key: str = ""
    """Tenant: partitions of a queue share its slots fairly."""
    rate_class: str = ""
    """Name of the shared rate budgets that the job draws from."""
    sticky_worker: str = ""
    """Id of the only worker that may run the job."""
    priority: int = 0
    """Order inside a partition: higher first."""
    weight: int = 1
    """Cost against the budgets of the rate class."""
    max_attempts: int | None = None
    """Returned failures after which the job is archived; default HEADGATE["MAX_ATTEMPTS"]."""
    retention: Duration | None = None
    """How long the finished job is kept; 0 deletes it on success; default HEADGATE["RETENTION"]."""
    timeout: Duration | None = None
    """How long one run may take; None is no limit."""
    deadline: Duration | datetime | None = None
    """Instant, or time from the enqueue, after which the job is archived instead of run."""
    delay: Duration | None = None
    """Time from the enqueue until the job is due."""
    at: datetime | None = None
    """Instant at which the job is due."""
    pending: bool = False
    """Store the job pending: it waits until it is promoted."""
    id: str = ""
    """The caller's own id: the same id and content is stored once."""
    tags: tuple[str, ...] = ()
    """Labels for people."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Private metadata that travels with the payload."""

    def changed(self, **options: Any) -> Options:
        """A copy with other values. Raises ConfigurationError for an unknown name, with a suggestion."""
        known = [option.name for option in fields(Options)]
        for name in options:
            if name in OF_THE_HANDLER:
                raise ConfigurationError(f"{name!r} belongs to the handler: give it to @job, not to using()")
            if name not in known:
                raise ConfigurationError(f"{name!r} is not a job option" + suggestion(name, known))
        if "tags" in options:
            options["tags"] = _tags(options["tags"])
        if isinstance(options.get("headers"), Mapping):
            options["headers"] = dict(options["headers"])  # what the caller does to it later is not ours
        return replace(self, **options)

    def envelope(self, kind: str, payload: bytes, schema_version: int) -> Envelope:
        """The validated envelope of one call. Raises InvalidJob naming the field."""
        defaults = config()
        deadline_ms = deadline_in_ms = 0
        if isinstance(self.deadline, datetime):
            deadline_ms = instant_ms(self.deadline, "deadline")
        elif self.deadline is not None:
            deadline_in_ms = to_ms(self.deadline, "deadline")
        if self.delay is not None and self.at is not None:
            raise InvalidJob("delay", "cannot be combined with at")
        envelope = Envelope(
            kind=kind,
            payload=payload,
            schema_version=schema_version,
            id=self.id,
            queue=self.queue,
            partition_key=self.partition_key,
            rate_class=self.rate_class,
            sticky_worker=self.sticky_worker,
            priority=self.priority,
            weight=self.weight,
            pending=self.pending,
            scheduled_at_ms=instant_ms(self.at, "at") if self.at is not None else 0,
            delay_ms=to_ms(self.delay, "delay", minimum=0) if self.delay is not None else 0,
            timeout_ms=to_ms(self.timeout, "timeout") if self.timeout is not None else 0,
            deadline_ms=deadline_ms,
            deadline_in_ms=deadline_in_ms,
            retention_ms=_ms_or(self.retention, "retention", defaults.retention),
            max_attempts=defaults.max_attempts if self.max_attempts is None else self.max_attempts,
            tags=self.tags,
            headers=self.headers,
        )
        validate(envelope)
        return envelope


def _tags(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list | tuple | set | frozenset):
        raise InvalidJob("tags", f"must be a list of str, not {type(given).__name__}")
    return tuple(given)


def _ms_or(value: float | timedelta | None, name: str, default: int) -> int:
    return default if value is None else to_ms(value, name, minimum=0)
