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

    @classmethod
    def stored(cls, name: str, scope: str, key: str, max_concurrent: int, on_saturated: str) -> Ceiling:
        """From the columns of a row. Raises ValueError for a scope or a strategy that does not exist."""
        return cls(
            name=name,
            scope=Scope(scope),
            key=key,
            max_concurrent=max_concurrent,
            on_saturated=Saturated(on_saturated),
        )

    def seat(self, stream: Stream) -> Seat | None:
        """Where a job of this stream is counted, or None when the limit does not concern it."""
        if self.scope is Scope.RATE_CLASS:
            return Seat(self.name, "") if stream.rate_class == self.key else None
        if stream.queue != self.key:
            return None
        return Seat(self.name, stream.partition_key if self.scope is Scope.PARTITION else "")


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
    words: str = ""
    about: tuple[object, ...] = ()
    displaced: tuple[Ceiling, ...] = ()
    saves: bool = False

    @property
    def reason(self) -> str:
        """In words; put together only when somebody reads them."""
        return self.words.format(*self.about)


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

    def admits_none(self, stream: Stream) -> bool:
        """Whether no job of this stream can be admitted, discarded or cancelled now."""
        if not self.ceilings and stream.rate_class not in self.classes:
            return False
        return self.rule(stream, 1).answer is Answer.HOLD

    def rule(self, stream: Stream, weight: int) -> Ruling:
        """What becomes of the next job of this stream."""
        state = self.classes.get(stream.rate_class)
        if state is not None:
            if weight > 1 and (budget := state.too_heavy(weight)):
                words = "weight {} is above the burst of {}: {}"
                return Ruling(Answer.TOO_HEAVY, words, (weight, state.name, budget))
            if closed := state.closed:
                return Ruling(Answer.HOLD, "rate class {} is {}", (state.name, closed))
        full = self.full(stream)
        if full and (refusal := self._full(full, stream)):
            return refusal
        if state is not None and (budget := state.lacking(stream.partition_key, weight)):
            saves = weight > 1 and state.lacks_only_shared(stream.partition_key, weight)
            words = "rate class {} has too few tokens: {}"
            return Ruling(Answer.HOLD, words, (state.name, budget), saves=saves)
        return Ruling(Answer.ADMIT, displaced=tuple(self._excess(full, stream)) if full else ())

    def _full(self, full: Sequence[Ceiling], stream: Stream) -> Ruling | None:
        for strategy, answer in _ANSWERS:
            for ceiling in full:
                if ceiling.on_saturated is strategy:
                    return Ruling(answer, "concurrency limit {} is full", (ceiling.name,))
        for ceiling in full:
            if self._given(ceiling, stream) >= ceiling.max_concurrent:
                return Ruling(Answer.HOLD, "concurrency limit {} holds only jobs of this admit", (ceiling.name,))
        return None

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
        if not self.ceilings:
            return []
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
