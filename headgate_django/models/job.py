"""The job: envelope routing and execution state in one narrow row."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import models, router
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _
from ulid import ULID

from headgate_django.core.envelope import DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE, MAX_KEY_LENGTH
from headgate_django.core.outcomes import RUN_EVENTS
from headgate_django.core.states import STORED, TERMINAL, TRANSITIONS, WAITING, Event, State, events_from, sources
from headgate_django.exceptions import IllegalTransition
from headgate_django.models.fields import KeyField, MillisecondsField
from headgate_django.models.messages import notify_workers
from headgate_django.models.store import alias, execute, marks, write_transaction
from headgate_django.signals import job_died, job_transitioned, send_after_commit

DEATHS = frozenset({State.ARCHIVED, State.QUARANTINED, State.UNDECODABLE})
FENCED_EVENTS = RUN_EVENTS - {Event.EXPIRE} | {Event.ADMIT, Event.LOSE_LEASE}
"""What only the gate, an ack or the reclaimer does. A deadline also passes for jobs that wait."""
DEFERRED = tuple(state for state in State if state in WAITING - {State.AVAILABLE})
"""States of jobs that wait for something before they are available."""
_STEP = 500  # ids in one statement: no database's limit on parameters is met

_STORED = [state.value for state in State if state in STORED]
_TERMINAL = [state.value for state in State if state in TERMINAL]


def new_id() -> str:
    """A new ULID: unique, and ordered by creation."""
    return str(ULID())


class JobQuerySet(models.QuerySet["Job"]):
    """Verbs over selections. The state changes only through ``transition`` and a run's fenced writes."""

    def in_state(self, *states: State) -> JobQuerySet:
        """Jobs in any of the states."""
        if all(state in TERMINAL for state in states):
            # Lets every database use the partial index on finished jobs.
            return self.filter(state__in=states, finalized_at_ms__isnull=False)
        return self.filter(state__in=states)

    def finished(self) -> JobQuerySet:
        """Jobs in a terminal state."""
        return self.in_state(*TERMINAL)

    def for_write(self) -> JobQuerySet:
        """The same selection on the database that holds the queue: a replica must not decide what is written."""
        return self.using(self._db or alias())  # type: ignore[attr-defined]

    def transition(self, event: Event, *, now_ms: int, condition: bool = False, **changes: Any) -> int:
        """Apply ``event`` to the selected jobs that stand where it may happen; how many it moved.

        UPDATEs (or DELETEs) of up to 500 rows, filtered on the states the law names. ``condition`` chooses the
        second target of a row of the law; ``changes`` are further columns of the same UPDATE. What a run writes
        is not for this verb: only the gate and ``ack`` hold the lease. A worker that loses a running job is told
        after the commit.
        """
        if event in FENCED_EVENTS:
            raise IllegalTransition("(selection)", "any state", event, "it is written under a lease: use ack")
        jobs = self.for_write()
        with write_transaction(jobs.db):
            # Rows are locked in the order of their ids, by one statement: a second one would see, and lock out of
            # order, what was not there before. Then the ids are fixed.
            locked = jobs.filter(state__in=sources(event)).order_by("pk").select_for_update()
            moving: dict[State, list[str]] = {}
            holders: set[str] = set()
            for job_id, origin, worker_id in locked.values_list("pk", "state", "worker_id"):
                row = TRANSITIONS[State(origin), event]
                moving.setdefault(row.resolve(condition), []).append(job_id)
                if origin == State.RUNNING:
                    holders.add(worker_id)
            notify_workers(holders, jobs.db)
            for state, ids in moving.items():
                jobs._enter(event, state, ids, _columns(state, now_ms) | changes)
                announce(ids, event, state, using=jobs.db)
            return sum(map(len, moving.values()))

    transition.alters_data = True  # type: ignore[attr-defined]

    def _enter(self, event: Event, state: State, ids: list[str], columns: dict[str, Any]) -> None:
        for start in range(0, len(ids), _STEP):
            part = ids[start : start + _STEP]
            if state is State.DELETED:
                delete_jobs(self.db, part)
            else:
                chosen = Job._base_manager.using(self.db).filter(pk__in=part, state__in=sources(event))
                models.QuerySet.update(chosen, **columns)

    def update(self, **kwargs: Any) -> int:
        """As Django's, but the state is refused: use a verb."""
        if "state" in kwargs:
            self._refuse("update(state=…)")
        return super().update(**kwargs)

    update.alters_data = True  # type: ignore[attr-defined]

    def bulk_update(self, objs: Any, fields: Any, batch_size: int | None = None) -> int:
        """As Django's, but the state is refused: use a verb."""
        if "state" in fields:
            self._refuse("bulk_update(…, ['state'])")
        return super().bulk_update(objs, fields, batch_size)

    def bulk_create(self, objs: Any, *args: Any, **kwargs: Any) -> list[Job]:
        """Refused: a job without its payload cannot run. Use ``enqueue_many``."""
        self._refuse("bulk_create()")

    def delete(self) -> tuple[int, dict[str, int]]:
        """As Django's, but refused, before any statement of it, if a selected job has not ended."""
        alive = self.for_write().order_by().exclude(state__in=_TERMINAL).values_list("pk", "state").first()
        if alive is not None:
            raise IllegalTransition(*alive, "delete()", _possible(alive[1]))
        return super().delete()

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]

    def _refuse(self, call: str) -> NoReturn:
        raise IllegalTransition(
            "(selection)", "any state", call, "use enqueue, or a verb of headgate_django.control"
        )


class Job(models.Model):
    """A durable envelope plus store-owned execution state. Payload and headers live in ``Payload``."""

    id = KeyField(primary_key=True, max_length=MAX_KEY_LENGTH, default=new_id, editable=False)
    kind = KeyField(max_length=128)
    schema_version = models.IntegerField(default=1)
    fingerprint = KeyField(max_length=32)
    queue = KeyField(max_length=MAX_KEY_LENGTH, default=DEFAULT_QUEUE)
    partition_key = KeyField(max_length=MAX_KEY_LENGTH, default="", blank=True)
    rate_class = KeyField(max_length=MAX_KEY_LENGTH, default="", blank=True)
    sticky_worker = KeyField(max_length=MAX_KEY_LENGTH, default="", blank=True)
    priority = models.IntegerField(default=0)
    weight = models.IntegerField(default=1)
    max_attempts = models.IntegerField(default=DEFAULT_MAX_ATTEMPTS)
    timeout_ms = MillisecondsField(default=0)
    deadline_ms = MillisecondsField(default=0, instant=True)
    retention_ms = MillisecondsField(default=0)
    tags = models.JSONField(default=list, blank=True)
    enqueued_at_ms = MillisecondsField(instant=True)

    state = KeyField(
        max_length=16,
        choices=[(state, state.capitalize()) for state in _STORED],
        default=State.AVAILABLE.value,
    )
    scheduled_at_ms = MillisecondsField(instant=True)
    attempt = models.IntegerField(default=0, help_text=_("Returned failures."))
    crash_attempt = models.IntegerField(default=0, help_text=_("Lost leases."))
    interruptions = models.IntegerField(default=0, help_text=_("Runs given back by a worker that stopped."))
    fence = models.BigIntegerField(default=0)
    lease_id = KeyField(max_length=64, default="", blank=True)
    lease_expires_at_ms = MillisecondsField(null=True, blank=True, instant=True)
    worker_id = KeyField(max_length=MAX_KEY_LENGTH, default="", blank=True)
    attempted_at_ms = MillisecondsField(null=True, blank=True, instant=True)
    finalized_at_ms = MillisecondsField(null=True, blank=True, instant=True)
    error_class = models.CharField(max_length=255, default="", blank=True)
    error_summary = models.CharField(max_length=512, default="", blank=True)
    error_group = KeyField(max_length=32, default="", blank=True)
    progress_done = models.BigIntegerField(default=0, db_default=0)
    progress_total = models.BigIntegerField(default=0, db_default=0, help_text=_("0 when it is not known."))
    progress_note = models.CharField(max_length=255, default="", db_default="", blank=True)
    progress_at_ms = MillisecondsField(null=True, blank=True, instant=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        default_manager_name = "objects"
        base_manager_name = "objects"
        permissions = [
            ("redrive_job", "Can redrive dead jobs"),
            ("cancel_job", "Can cancel jobs"),
            ("discard_job", "Can discard finished jobs"),
            ("promote_job", "Can make waiting jobs available now"),
            ("reveal_payload", "Can reveal payloads and headers"),
        ]
        indexes = [
            models.Index(
                "queue", "partition_key", "rate_class", "sticky_worker",
                F("priority").desc(), "scheduled_at_ms", "id",
                name="headgate_job_ready", condition=Q(state=State.AVAILABLE.value),
            ),
            models.Index(
                "scheduled_at_ms", "id",
                name="headgate_job_due", condition=Q(state__in=[State.SCHEDULED.value, State.RETRYABLE.value]),
            ),
            models.Index(
                "queue", "state",
                name="headgate_job_deferred", condition=Q(state__in=[state.value for state in DEFERRED]),
            ),
            models.Index(
                "lease_expires_at_ms", "id", name="headgate_job_leased", condition=Q(state=State.RUNNING.value)
            ),
            models.Index(
                "state", "finalized_at_ms", "id",
                name="headgate_job_terminal", condition=Q(finalized_at_ms__isnull=False),
            ),
            models.Index(
                F("finalized_at_ms") + F("retention_ms"),
                name="headgate_job_evict",
                condition=Q(state__in=[state.value for state in sources(Event.EVICT)], retention_ms__gt=0),
            ),
        ]  # fmt: skip
        constraints = [
            models.CheckConstraint(
                name="headgate_job_known_state",
                condition=Q(state__in=_STORED),
            ),
            models.CheckConstraint(
                name="headgate_job_running_has_lease",
                condition=Q(state=State.RUNNING.value, lease_expires_at_ms__isnull=False) & ~Q(lease_id="")
                | ~Q(state=State.RUNNING.value) & Q(lease_id="", lease_expires_at_ms__isnull=True),
            ),
            models.CheckConstraint(
                name="headgate_job_terminal_is_final",
                condition=Q(
                    state__in=_TERMINAL, finalized_at_ms__isnull=False
                )
                | ~Q(state__in=_TERMINAL)
                & Q(finalized_at_ms__isnull=True),
            ),
            models.CheckConstraint(
                name="headgate_job_counters",
                condition=Q(
                    attempt__gte=0, crash_attempt__gte=0, interruptions__gte=0, fence__gte=0,
                    weight__gte=1, max_attempts__gte=1, schema_version__gte=1,
                    timeout_ms__gte=0, deadline_ms__gte=0, retention_ms__gte=0,
                ),
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"

    def transition(self, event: Event, *, now_ms: int, **changes: Any) -> None:
        """Apply ``event`` to this row. Raises IllegalTransition, and changes nothing, when the law forbids it."""
        using = router.db_for_write(type(self), instance=self)
        rows = Job.objects.using(using).filter(pk=self.pk)
        if event in FENCED_EVENTS or not rows.transition(event, now_ms=now_ms, **changes):
            stored = rows.values_list("state", flat=True).first() or State.DELETED
            raise IllegalTransition(self.pk, stored, event, _possible(stored))
        if rows.exists():
            self.refresh_from_db(using=using)

    def delete(self, using: Any = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:
        """As Django's, but refused if the job has not ended."""
        using = using or router.db_for_write(type(self), instance=self)
        return Job.objects.using(using).filter(pk=self.pk).delete()


def delete_jobs(using: str, ids: list[str]) -> None:
    """Delete jobs, already locked by the caller, with their payloads and attempts."""
    for name in ("headgate_django_attempt", "headgate_django_payload"):
        execute(using, f"DELETE FROM {name} WHERE job_id IN ({marks(len(ids))})", ids)
    execute(using, f"DELETE FROM headgate_django_job WHERE id IN ({marks(len(ids))})", ids)


def announce(ids: list[str], event: Event, state: State, *, using: str) -> None:
    """Report a transition that this transaction has made."""
    facts: dict[str, Any] = {"using": using, "job_ids": ids, "event": event, "state": state}
    send_after_commit(job_transitioned, Job, **facts)
    if state in DEATHS:
        send_after_commit(job_died, Job, **facts)


def _columns(state: State, now_ms: int) -> dict[str, Any]:
    return {
        "state": state,
        "lease_id": "",
        "lease_expires_at_ms": None,
        "finalized_at_ms": now_ms if state in TERMINAL else None,
    }


def _possible(state: str) -> str:
    possible = ", ".join(event for event in events_from(State(state)) if event not in FENCED_EVENTS)
    return f"possible here: {possible}" if possible else "nothing can happen here"
