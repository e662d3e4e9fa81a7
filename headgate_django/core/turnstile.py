"""The limits, as one question: may this job start now, and if not, what becomes of it?

Pure, and the same for the gate, for ``explain`` and for the simulation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import repeat
from typing import NamedTuple

from headgate_django.core.allocation import Stream
from headgate_django.core.buckets import RateState


class Scope(StrEnum):
    """What a concurrency limit counts."""

    QUEUE = "queue"
    PARTITION = "partition"
    RATE_CLASS = "rate_class"


class Saturated(StrEnum):
    """What becomes of a job whose scope is full."""

    QUEUE = "queue"
    DISCARD = "discard"
    CANCEL_INCOMING = "cancel_incoming"
    CANCEL_RUNNING = "cancel_running"


class Seat(NamedTuple):
    """What a concurrency limit is counted over: a limit, and for partitions which one."""

    limit: str
    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """At most ``max_concurrent`` running jobs of a queue, of each partition of a queue, or of a rate class."""

    name: str
    scope: Scope
    key: str
    max_concurrent: int
    on_saturated: Saturated = Saturated.QUEUE

    def seat(self, stream: Stream) -> Seat | None:
        """Where a job of this stream is counted, or None when the limit does not concern it."""
        match self.scope:
            case Scope.QUEUE if stream.queue == self.key:
                return Seat(self.name, "")
            case Scope.PARTITION if stream.queue == self.key:
                return Seat(self.name, stream.partition_key)
            case Scope.RATE_CLASS if stream.rate_class == self.key:
                return Seat(self.name, "")
        return None


class Answer(StrEnum):
    """What the turnstile says to one job."""

    ADMIT = "admit"
    HOLD = "hold"
    TOO_HEAVY = "too heavy"
    DISCARD = "discard"
    CANCEL_INCOMING = "cancel incoming"


class Ruling(NamedTuple):
    """An answer and what it is about.

    ``displaced``: a ceiling for each running job, its oldest, that must make room. ``saves``: held back only for
    tokens that all partitions of the class share.
    """

    answer: Answer
    reason: str = ""
    displaced: tuple[Ceiling, ...] = ()
    saves: bool = False


@dataclass(slots=True)
class Turnstile:
    """Rate classes and ceilings during one admit. ``running`` counts the fleet's running jobs per seat."""

    classes: Mapping[str, RateState] = field(default_factory=dict)
    ceilings: Sequence[Ceiling] = ()
    running: Counter[Seat] = field(default_factory=Counter)
    given: Counter[Seat] = field(default_factory=Counter)

    def count(self, stream: Stream, jobs: int) -> None:
        """Count running jobs."""
        for ceiling in self.ceilings:
            if seat := ceiling.seat(stream):
                self.running[seat] += jobs

    def blocks(self, stream: Stream) -> str:
        """Why no job of this stream can be admitted, discarded or cancelled now; empty when one may be."""
        if not self.ceilings and stream.rate_class not in self.classes:
            return ""
        ruling = self.rule(stream, 1)
        return ruling.reason if ruling.answer is Answer.HOLD else ""

    def rule(self, stream: Stream, weight: int) -> Ruling:
        """What becomes of the next job of this stream."""
        state = self.classes.get(stream.rate_class)
        if state is not None and (budget := state.too_heavy(weight)):
            return Ruling(Answer.TOO_HEAVY, f"weight {weight} is above the burst of {state.name}: {budget}")
        if state is not None and state.closed:
            return Ruling(Answer.HOLD, f"rate class {state.name} is {state.closed}")
        full = self.full(stream)
        for strategy, answer in _ANSWERS:
            for ceiling in full:
                if ceiling.on_saturated is strategy:
                    return Ruling(answer, f"concurrency limit {ceiling.name} is full")
        spent = next((ceiling for ceiling in full if self._given(ceiling, stream) >= ceiling.max_concurrent), None)
        if spent is not None:
            return Ruling(Answer.HOLD, f"concurrency limit {spent.name} holds only jobs of this admit")
        if state is not None and (lacking := state.lacking(stream.partition_key, weight)):
            saves = not any(budget.per_partition for budget in lacking)
            return Ruling(Answer.HOLD, f"rate class {state.name} has too few tokens: {lacking[0]}", saves=saves)
        return Ruling(Answer.ADMIT, displaced=tuple(self._excess(full, stream)))

    def admit(self, stream: Stream, weight: int, ruling: Ruling) -> None:
        """Charge an admitted job: its tokens and its seats."""
        state = self.classes.get(stream.rate_class)
        if state is not None:
            state.charge(stream.partition_key, weight)
        for ceiling in self.ceilings:
            if seat := ceiling.seat(stream):
                self.given[seat] += 1
                self.running[seat] -= ruling.displaced.count(ceiling)

    def hold(self, stream: Stream, ruling: Ruling) -> None:
        """Remember that a job was held back in its turn.

        When only tokens that the whole class shares are lacking, they are saved up for it: lighter jobs of other
        partitions would else take each one as it comes, and it would never run.
        """
        if ruling.saves:
            self.classes[stream.rate_class].saving = True

    def charges(self, rate_class: str) -> bool:
        """Whether jobs of this class draw tokens."""
        state = self.classes.get(rate_class)
        return state is not None and bool(state.budgets)

    def withdraw(self, stream: Stream, weight: int) -> None:
        """Take back the tokens of an admitted job that cannot start after all; its seat stays taken this time."""
        state = self.classes.get(stream.rate_class)
        if state is not None:
            state.charge(stream.partition_key, -weight)

    def full(self, stream: Stream) -> list[Ceiling]:
        """The limits of this stream that have no place left."""
        return [
            ceiling
            for ceiling in self.ceilings
            if (seat := ceiling.seat(stream)) and self.running[seat] + self.given[seat] >= ceiling.max_concurrent
        ]

    def _given(self, ceiling: Ceiling, stream: Stream) -> int:
        seat = ceiling.seat(stream)
        return self.given[seat] if seat else 0

    def _excess(self, full: Sequence[Ceiling], stream: Stream) -> Iterator[Ceiling]:
        # More than one of a ceiling that was lowered while jobs ran.
        for ceiling in full:
            seat = ceiling.seat(stream)
            if seat:
                excess = self.running[seat] + self.given[seat] + 1 - ceiling.max_concurrent
                yield from repeat(ceiling, excess)


# The most careful strategy of all the full scopes wins. CANCEL_RUNNING is no refusal.
_ANSWERS = (
    (Saturated.QUEUE, Answer.HOLD),
    (Saturated.DISCARD, Answer.DISCARD),
    (Saturated.CANCEL_INCOMING, Answer.CANCEL_INCOMING),
)
