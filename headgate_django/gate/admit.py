"""The gate: select, check policies, claim and lease, in one transaction.

Six steps, each a file of this room: due, streams, allocate (``core.allocation`` over ``policies``), draw,
screen, claim. Steps 3 and 5 are pure; only 2 and 4 have a PostgreSQL form beside the portable one. A job that
policy holds back is not touched: it stays available, unlocked and visible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ulid import ULID

from headgate_django.core.allocation import Group, Ledger, Stream, allocate
from headgate_django.core.outcomes import Claim
from headgate_django.gate.claim import claim
from headgate_django.gate.draw import Candidate, draw
from headgate_django.gate.due import make_due_available
from headgate_django.gate.policies import Policies, count_in_flight, load_policies
from headgate_django.gate.screen import judge, remove_refused
from headgate_django.gate.streams import Cursor, find_streams
from headgate_django.models import clock
from headgate_django.models.job import Job
from headgate_django.models.store import alias, retrying_locked, write_transaction
from headgate_django.signals import job_admitted, send_after_commit

MAX_ROUNDS = 4
DEFAULT_LEASE_MS = 30_000


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
        """Up to ``capacity`` jobs that may run now, claimed and leased for this worker."""
        using = self.using or alias()
        return retrying_locked(using, lambda: self._admit(capacity, using))

    def _admit(self, capacity: int, using: str) -> list[Claim]:
        claims: list[Claim] = []
        if capacity < 1:
            return claims
        with write_transaction(using):
            now_ms = clock.now_ms(using)
            make_due_available(now_ms, using)
            policies = load_policies(self.queues, using=using)
            streams = self._open_streams(policies, using)
            if not streams:
                return claims
            in_flight = count_in_flight(policies.queues, using=using)
            lease_id = str(ULID())
            for _ in range(MAX_ROUNDS):
                candidates, streams = self._draw(capacity - len(claims), streams, policies, in_flight, using)
                verdicts = judge(candidates, now_ms)
                remove_refused(verdicts, now_ms, using)
                claims += claim(
                    verdicts.admitted,
                    worker_id=self.worker_id,
                    lease_id=lease_id,
                    lease_ms=self.lease_ms,
                    now_ms=now_ms,
                    using=using,
                )
                self._remember(verdicts.admitted, policies, in_flight)
                if len(claims) >= capacity or not streams:
                    break
            send_after_commit(job_admitted, Job, using=using, claims=claims)
        return claims

    def _open_streams(self, policies: Policies, using: str) -> list[Stream]:
        found = find_streams(policies.queues, self.worker_id, self.cursor, using=using, portable=self.portable)
        return [stream for stream in found if stream.group not in policies.paused_groups]

    def _draw(
        self,
        capacity: int,
        streams: list[Stream],
        policies: Policies,
        in_flight: dict[Group, int],
        using: str,
    ) -> tuple[list[Candidate], list[Stream]]:
        """The candidates for ``capacity`` slots, and the streams that may have more."""
        shares = allocate(
            dict.fromkeys(stream.group for stream in streams),
            capacity,
            ledger=self.ledger,
            queue_weights=policies.queue_weights,
            group_weights=policies.group_weights,
            in_flight=in_flight,
        )
        candidates = draw(shares, streams, using=using, portable=self.portable)
        drawn: dict[Group, int] = {}
        for candidate in candidates:
            drawn[candidate.group] = drawn.get(candidate.group, 0) + 1
        dry = {group for group, share in shares.items() if drawn.get(group, 0) < share}
        return candidates, [stream for stream in streams if stream.group not in dry]

    def _remember(self, admitted: list[Candidate], policies: Policies, in_flight: dict[Group, int]) -> None:
        for candidate in admitted:
            group = candidate.group
            in_flight[group] = in_flight.get(group, 0) + 1
            self.ledger.record(group, 1, policies.queue_weights.get(group.queue, 1))
