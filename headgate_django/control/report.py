"""What a verb did to its selection: done, skipped and refused, each with its reason and how many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

GONE = "gone"
"""No such row any more."""
CONTENT_QUARANTINED = "content quarantined"
"""Its content has crashed workers; the gate would only quarantine the job again. Release it first."""
CANARY_IS_OUT = "a canary is out"
"""One job of this content runs ahead already."""
NO_JOB = "no quarantined job"
"""Nothing of this content is left that could run ahead."""
ATTEMPTS_AT_LIMIT = "attempts at limit"
"""``max_attempts`` has no room for the extra attempts."""
BUSY = "database busy"
"""Another writer held the rows too long. What was not done can be asked for again."""
ALREADY_PAUSED = "already paused"
NOT_PAUSED = "not paused"
NOT_ALIVE = "not alive"
"""The worker was not heard of lately, so nobody would obey."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """``skipped``: the row is not where the verb starts, by its state. ``refused``: it must not be done.

    ``more`` says that the selection held more than the limit of one call; ``freed`` counts the jobs that a
    release of content made available.
    """

    verb: str
    done: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    more: bool = False
    freed: int = 0

    def __add__(self, other: Report) -> Report:
        return Report(
            verb=self.verb,
            done=self.done + other.done,
            skipped=_sum(self.skipped, other.skipped),
            refused=_sum(self.refused, other.refused),
            more=self.more or other.more,
            freed=self.freed + other.freed,
        )

    def __str__(self) -> str:
        parts = [f"{self.verb}: {self.done} done"]
        if self.freed:
            parts.append(f"{self.freed} jobs available again")
        parts += [f"{count} skipped: {reason}" for reason, count in self.skipped.items()]
        parts += [f"{count} refused: {reason}" for reason, count in self.refused.items()]
        if self.more:
            parts.append("the selection holds more")
        return "; ".join(parts)


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {reason: one.get(reason, 0) + other.get(reason, 0) for reason in {**one, **other}}
