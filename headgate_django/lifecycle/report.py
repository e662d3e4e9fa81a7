"""What runs report about their rate class: what they really cost, and that the far end wants a pause.

Applied in the ack's transaction, and only for claims that still held their lease.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.models import clock
from headgate_django.models.rates import LOCK, hold_back, load_rates, save_rates


class Reports:
    """The reports among the results of one ack. False when there are none."""

    def __init__(self, results: Sequence[tuple[Claim, Outcome]]) -> None:
        self._corrections = [
            (claim, outcome.actual_weight - claim.charged_weight)
            for claim, outcome in results
            if outcome.actual_weight is not None and claim.charged_weight
        ]
        self._holds = [(claim, outcome.hold_class_ms) for claim, outcome in results if outcome.hold_class_ms]
        self._now_ms = 0

    def __bool__(self) -> bool:
        return bool(self._corrections or self._holds)

    def lock(self, using: str) -> None:
        """Lock the rate classes, by name; with them come their buckets."""
        if not self:
            return
        self._now_ms = clock.now_ms(using)
        claims = [claim for claim, _ in [*self._corrections, *self._holds]]
        self._states = load_rates(
            {claim.rate_class for claim in claims},
            {claim.partition_key for claim in claims},
            self._now_ms,
            lock=LOCK,
            using=using,
        )

    def apply(self, held: Collection[tuple[str, int]], using: str) -> None:
        """Charge or refund the differences and hold classes back, for the claims in ``held`` (id and fence)."""
        for claim, difference in self._corrections:
            state = self._states.get(claim.rate_class)
            if state is not None and claim.run_id in held:
                state.charge(claim.partition_key, difference)
        if self._corrections:
            save_rates(self._states.values(), using=using)
        until: dict[str, int] = {}
        for claim, delay_ms in self._holds:
            if claim.run_id in held:
                until[claim.rate_class] = max(delay_ms, until.get(claim.rate_class, 0))
        if until:
            hold_back(until, self._now_ms, using=using)
