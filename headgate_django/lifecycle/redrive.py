"""Redrive: an operator gives dead jobs another chance."""

from __future__ import annotations

from typing import Any

from django.db.models import Case, F, When
from django.db.models.functions import Greatest

from headgate_django.core.envelope import INT32_MAX
from headgate_django.core.states import Event
from headgate_django.exceptions import InvalidJob
from headgate_django.lifecycle.wakeup import notify_after_commit
from headgate_django.models import clock
from headgate_django.models.job import JobQuerySet
from headgate_django.models.store import write_transaction

MAX_EXTRA_ATTEMPTS = 1_000


def redrive(jobs: JobQuerySet, *, extra_attempts: int = 0) -> int:
    """Make the selected archived, cancelled and undecodable jobs available again; how many.

    All history is kept. A deadline that has passed is lifted: the gate would archive the job at once. A job
    whose attempts are exhausted is archived again at its next failure unless ``extra_attempts`` (0 to 1000)
    grants that many more. Raises InvalidJob for another number.
    """
    if type(extra_attempts) is not int or not 0 <= extra_attempts <= MAX_EXTRA_ATTEMPTS:
        raise InvalidJob("extra_attempts", f"must be between 0 and {MAX_EXTRA_ATTEMPTS}, not {extra_attempts!r}")
    jobs = jobs.for_write()
    using = jobs.db
    with write_transaction(using):
        now_ms = clock.now_ms(using)
        roomy = jobs.filter(max_attempts__lte=INT32_MAX - extra_attempts, attempt__lte=INT32_MAX - extra_attempts)
        queues = set(roomy.order_by().values_list("queue", flat=True).distinct()[:100])
        changes: dict[str, Any] = {
            "scheduled_at_ms": now_ms,
            "deadline_ms": Case(When(deadline_ms__gt=now_ms, then=F("deadline_ms")), default=0),
        }
        if extra_attempts:
            changes["max_attempts"] = Greatest("max_attempts", "attempt") + extra_attempts
        moved = roomy.transition(Event.REDRIVE, now_ms=now_ms, **changes)
        notify_after_commit(queues, using)
    return moved
