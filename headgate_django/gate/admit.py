"""The gate: select, check policies, claim and lease, in one transaction.

Six steps: due, streams, allocate, draw, screen, claim; when jobs are due, the first is a transaction of its own.
What is read and written is in the files of this room; what is decided, in ``core``: ``walk``, ``admission``,
``allocation``, ``drawing``, ``screening``, ``turnstile``. Only steps 2 and 4 have a PostgreSQL form beside the
portable one. A job that policy holds back is not touched: it stays available, unlocked and visible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ulid import ULID

from headgate_django.core.admission import MAX_CAPACITY, Admission, Partitions
from headgate_django.core.allocation import Group, Ledger, Stream
from headgate_django.core.drawing import Candidate, Drawn
from headgate_django.core.outcomes import Claim
from headgate_django.core.screening import Refusal
from headgate_django.core.turnstile import Ceiling, Turnstile
from headgate_django.core.walk import Cursor
from headgate_django.gate.claim import claim
from headgate_django.gate.displace import displace
from headgate_django.gate.draw import draw
from headgate_django.gate.due import LIMIT as MAX_DUE
from headgate_django.gate.due import make_due_available
from headgate_django.gate.limits import load_turnstile
from headgate_django.gate.policies import Queues, load_partitions, load_queues
from headgate_django.gate.screen import remove_refused
from headgate_django.gate.streams import walk_streams
from headgate_django.models.job import Job
from headgate_django.models.rates import LOCK, LOCK_OR_SKIP, save_rates
from headgate_django.models.store import alias, begin_pinned, retrying_locked, write_transaction
from headgate_django.signals import job_admitted, send_after_commit

DEFAULT_LEASE_MS = 30_000


@dataclass
class Gate:
    """One worker's door to the queue. Remembers only what fairness needs; all else is in the database."""

    worker_id: str
    queues: Mapping[str, int] = field(default_factory=lambda: {"default": 1})
    lease_ms: int = DEFAULT_LEASE_MS
    using: str = ""
    portable: bool = False
    sticky: str = ""
    """The name by which jobs ask for this worker alone; default: its id."""
    ledger: Ledger = field(default_factory=Ledger)
    cursor: Cursor = field(default_factory=Cursor)
    came_round: bool = field(default=False, init=False)
    """Whether, with the last admit, everything that has work was looked at since this was last true."""

    def admit(self, capacity: int) -> list[Claim]:
        """Up to ``capacity`` jobs (at most 10,000) that may run now, claimed and leased for this worker."""
        if capacity < 1:
            return []
        using = self.using or alias()
        return retrying_locked(using, lambda: self._admit(min(capacity, MAX_CAPACITY), using))

    def _admit(self, capacity: int, using: str) -> list[Claim]:
        try:
            claims, more_due = self._transact(capacity, using)
        except BaseException:
            self.cursor.restart()
            raise
        self.came_round = self.cursor.come_round() and not more_due
        return claims

    def _transact(self, capacity: int, using: str) -> tuple[list[Claim], bool]:
        """The claims, and whether there may be more jobs that are due."""
        with write_transaction(using):
            now_ms = begin_pinned(using)
            if not (due := make_due_available(now_ms, using)):
                return self._take(capacity, now_ms, using), False
        # They are committed: no job is locked while the gate waits for policies, which come before jobs.
        with write_transaction(using):
            return self._take(capacity, begin_pinned(using), using), due >= MAX_DUE

    def _take(self, capacity: int, now_ms: int, using: str) -> list[Claim]:
        queues = load_queues(self.queues, self.cursor, using=using)
        me = self.sticky or self.worker_id
        walk = walk_streams(queues.names, me, self.cursor, using=using, portable=self.portable)
        tables = _Tables(self, queues, now_ms, using)
        admission = Admission(
            store=tables, ledger=self.ledger, free=capacity, queue_weights=queues.weights, now_ms=now_ms
        )
        admission.fill(walk)
        if tables.claims:
            send_after_commit(job_admitted, Job, using=using, claims=tables.claims)
        return tables.claims


@dataclass
class _Tables:
    """The store of one admit: reads the policies of a window, and writes what the admission decides."""

    gate: Gate
    queues: Queues
    now_ms: int
    using: str
    lock: str = LOCK
    claims: list[Claim] = field(default_factory=list)
    lease_id: str = field(default_factory=lambda: str(ULID()))

    def policies(self, streams: Sequence[Stream]) -> tuple[Partitions, Turnstile]:
        # Limits are locked first, and only then is counted what runs under them.
        lock, self.lock = self.lock, LOCK_OR_SKIP
        turnstile = load_turnstile(
            streams, self.now_ms, has_ceilings=self.queues.has_ceilings, lock=lock, using=self.using
        )
        partitions = load_partitions({stream.group for stream in streams}, turnstile, using=self.using)
        return partitions, turnstile

    def keep(self, turnstile: Turnstile) -> None:
        save_rates(turnstile.classes.values(), using=self.using)

    def draw(self, shares: Mapping[Group, int], streams: Sequence[Stream], ahead: int) -> Drawn:
        return draw(shares, streams, ahead=ahead, using=self.using, portable=self.gate.portable)

    def remove(self, refused: Sequence[Refusal]) -> None:
        remove_refused(refused, self.now_ms, self.using)

    def displace(self, ceiling: Ceiling, stream: Stream, count: int) -> Sequence[Stream]:
        return displace(ceiling, stream, count, lease_id=self.lease_id, now_ms=self.now_ms, using=self.using)

    def claim(self, admitted: Sequence[Candidate], turnstile: Turnstile) -> int:
        claims = claim(
            admitted,
            worker_id=self.gate.worker_id,
            lease_id=self.lease_id,
            lease_ms=self.gate.lease_ms,
            now_ms=self.now_ms,
            using=self.using,
        )
        self.claims += [
            replace(one, charged_weight=one.weight) if turnstile.charges(one.rate_class) else one for one in claims
        ]
        return len(claims)
