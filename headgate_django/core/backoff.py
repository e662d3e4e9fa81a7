"""How long a failed job waits. The cap is applied before the power, so no attempt count can overflow."""

from __future__ import annotations

BASE_MS = 1_000
CAP_MS = 3_600_000
_MAX_EXPONENT = 20


def failure_delay(attempt: int, jitter: float, *, base_ms: int = BASE_MS, cap_ms: int = CAP_MS) -> int:
    """Milliseconds before the next try after the failure that made ``attempt`` failures (≥ 1).

    Exponential: base · 2^(attempt-1), capped, and then later by up to a tenth of it or one base, so that jobs
    that failed together do not return together. ``jitter`` is a number in [0, 1).
    """
    return _spread(_exponential(attempt, base_ms, cap_ms), jitter, base_ms)


def crash_delay(crash_attempt: int, jitter: float, *, base_ms: int = BASE_MS, cap_ms: int = CAP_MS) -> int:
    """Milliseconds before the next try after the lost lease that made ``crash_attempt`` crashes (≥ 1).

    After the first only a spread of half a base: the job may be innocent, and it runs alone from now on.
    """
    if crash_attempt <= 1:
        return int(jitter * base_ms / 2)
    return _spread(_exponential(crash_attempt - 1, base_ms, cap_ms), jitter, base_ms)


def _spread(delay_ms: int, jitter: float, base_ms: int) -> int:
    return delay_ms + int(jitter * max(base_ms, delay_ms // 10))


def _exponential(count: int, base_ms: int, cap_ms: int) -> int:
    exponent = min(max(count - 1, 0), _MAX_EXPONENT)
    return min(cap_ms, base_ms << exponent)
