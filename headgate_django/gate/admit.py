"""The gate: select, check policies, claim and lease, in one transaction.

Six steps, each a file of this room: due, streams, allocate (``core.allocation`` over ``policies``), draw,
screen, claim. Steps 3 and 5 are pure; only 2 and 4 have a PostgreSQL form beside the portable one. A job that
policy holds back is not touched: it stays available, unlocked and visible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ulid import ULID

from headgate_django.core.allocation import Group, Ledger, Stream, allocate
from headgate_django.core.outcomes import Claim
from headgate_django.core.turnstile import Turnstile
from headgate_django.gate.claim import claim
from headgate_django.gate.displace import displace
from headgate_django.gate.draw import Candidate, draw
from headgate_django.gate.due import make_due_available
from headgate_django.gate.limits import load_turnstile
from headgate_django.gate.policies import Partitions, Queues, load_partitions, load_queues
from headgate_django.gate.screen import Verdicts, judge, remove_refused, stream_of
from headgate_django.gate.streams import Cursor, Walk
from headgate_django.models import clock
from headgate_django.models.job import Job
from headgate_django.models.rates import LOCK, LOCK_OR_SKIP, save_rates
from headgate_django.models.store import alias, fetch, is_postgres, retrying_locked, write_transaction
from headgate_django.signals import job_admitted, send_after_commit

MAX_CAPACITY = 10_000
MAX_WINDOWS = 4
MAX_ROUNDS = 16
DEFAULT_LEASE_MS = 30_000

FIRST_AHEAD, MAX_AHEAD = 64, 2_000
"""Jobs drawn beyond the shares after a round that gave too few: many in front may have expired."""


@dataclass
class Gate:
    """One worker's door to the queue. Remembers only what fairness needs; all else is in the database."""

    worker_id: str
    queues: Mapping[str, int] = field(default_factory=lambda: {"default": 1})
    lease_ms: int = DEFAULT_LEASE_MS
    using: str = ""
    portable: bool = False
    ledger: Ledger = field(default_factory=Ledger)
    cursor: Cursor = field(default_factory=Cursor)

    def admit(self, capacity: int) -> list[Claim]:
        """Up to ``capacity`` jobs (at most 10,000) that may run now, claimed and leased for this worker."""
        if capacity < 1:
            return []
        using = self.using or alias()
        return retrying_locked(using, lambda: self._admit(min(capacity, MAX_CAPACITY), using))

    def _admit(self, capacity: int, using: str) -> list[Claim]:
        with write_transaction(using):
            now_ms = _begin(using)
            make_due_available(now_ms, using)
            queues = load_queues(self.queues, self.cursor, using=using)
            walk = Walk(queues.names, self.worker_id, self.cursor, using=using, portable=self.portable)
            admission = _Admission(self, capacity, queues, now_ms, using)
            for _ in range(MAX_WINDOWS):
                admission.take_from(walk.window())
                if admission.free < 1 or walk.done:
                    break
            if admission.claims:
                send_after_commit(job_admitted, Job, using=using, claims=admission.claims)
        return admission.claims


_PINS = "".join(
    f", set_config('{setting}', 'off', true)" for setting in ("enable_seqscan", "enable_bitmapscan", "jit")
)
"""Until this transaction ends every step goes along its index, in order, and stops at its LIMIT.

A planner whose statistics are a minute old may prefer to read and sort a whole backlog that has just arrived.
"""


def _begin(using: str) -> int:
    """The store's time; on PostgreSQL the same statement pins the plans."""
    pins = _PINS if is_postgres(using) else ""
    return int(fetch(using, f"SELECT {clock.now_sql(using)}{pins}")[0][0])


@dataclass
class _Admission:
    """Steps 3 to 6, round by round, until the capacity is given or nothing is left to give it to."""

    gate: Gate
    capacity: int
    queues: Queues
    now_ms: int
    using: str
    claims: list[Claim] = field(default_factory=list)
    ahead: int = 0
    lease_id: str = field(default_factory=lambda: str(ULID()))

    @property
    def free(self) -> int:
        return self.capacity - len(self.claims)

    def take_from(self, streams: Sequence[Stream]) -> None:
        """Give the free capacity to these streams, as far as they have work and the limits have room."""
        if not streams:
            return
        # Limits are locked first, and only then is counted what runs under them.
        lock = LOCK_OR_SKIP if self.claims else LOCK
        turnstile = load_turnstile(
            streams, self.now_ms, has_ceilings=self.queues.has_ceilings, lock=lock, using=self.using
        )
        partitions = load_partitions({stream.group for stream in streams}, turnstile, using=self.using)
        streams = [stream for stream in streams if stream.group not in partitions.paused]
        for _ in range(MAX_ROUNDS):
            streams = [stream for stream in streams if not turnstile.blocks(stream)]
            if self.free < 1 or not streams:
                break
            streams = self._round(streams, partitions, turnstile)
        save_rates(turnstile.classes.values(), using=self.using)

    def _round(self, streams: Sequence[Stream], partitions: Partitions, turnstile: Turnstile) -> list[Stream]:
        """Allocate, draw, screen and claim once; the streams that may have more."""
        shares = allocate(
            dict.fromkeys(stream.group for stream in streams),
            self.free,
            ledger=self.gate.ledger,
            queue_weights=self.queues.weights,
            group_weights=partitions.weights,
            in_flight=partitions.in_flight,
        )
        drawn = draw(shares, streams, ahead=self.ahead, using=self.using, portable=self.gate.portable)
        verdicts = judge(drawn.candidates, shares, self.now_ms, turnstile)
        remove_refused(verdicts.refused, self.now_ms, self.using)
        self._claim(self._seated(verdicts, turnstile), partitions.in_flight, turnstile)
        dry = drawn.dry - {candidate.group for candidate in verdicts.surplus}
        given = Counter(candidate.group for candidate in verdicts.admitted)
        if any(given[group] < share for group, share in shares.items() if group not in dry):
            self.ahead = min(MAX_AHEAD, max(FIRST_AHEAD, self.ahead * 4))
        return [
            stream
            for stream in streams
            if stream.group not in dry and (stream.group, stream.rate_class) not in verdicts.held
        ]

    def _seated(self, verdicts: Verdicts, turnstile: Turnstile) -> list[Candidate]:
        """The admitted candidates, less those for whom no running job could be moved aside."""
        wanted = [
            (candidate, ceiling)
            for candidate in verdicts.admitted
            for ceiling in verdicts.displacing.get(candidate.id, ())
        ]
        if not wanted:
            return verdicts.admitted
        places = [(ceiling, stream_of(candidate)) for candidate, ceiling in wanted]
        freed = displace(places, self.lease_id, self.now_ms, self.using)
        standing = {candidate.id for (candidate, _), place in zip(wanted, freed, strict=True) if not place}
        for candidate in verdicts.admitted:
            if candidate.id in standing:
                turnstile.withdraw(stream_of(candidate), candidate.weight)
        return [candidate for candidate in verdicts.admitted if candidate.id not in standing]

    def _claim(self, admitted: list[Candidate], in_flight: dict[Group, int], turnstile: Turnstile) -> None:
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
        for candidate in admitted:
            group = candidate.group
            in_flight[group] = in_flight.get(group, 0) + 1
            self.gate.ledger.record(group, 1, self.queues.weights.get(group.queue, 1))
