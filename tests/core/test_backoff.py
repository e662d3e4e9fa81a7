"""Delays after failures and crashes: growing, capped, spread, and safe at any count."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate_django.core.backoff import BASE_MS, CAP_MS, crash_delay, failure_delay

counts = st.integers(min_value=1, max_value=2**31)
jitters = st.floats(min_value=0, max_value=1, exclude_max=True)
both = pytest.mark.parametrize("delay", [failure_delay, crash_delay])


def test_the_first_delays_double_from_one_second():
    assert [failure_delay(count, 0.0) for count in range(1, 6)] == [1_000, 2_000, 4_000, 8_000, 16_000]


def test_after_the_first_crash_a_job_comes_back_at_once_and_later_ones_double_from_one_second():
    assert [crash_delay(count, 0.0) for count in range(1, 6)] == [0, 1_000, 2_000, 4_000, 8_000]
    assert max(crash_delay(1, step / 500) for step in range(500)) < BASE_MS / 2


@both
def test_no_count_overflows_or_passes_the_cap(delay):
    assert all(BASE_MS <= delay(count, 0.0) <= CAP_MS for count in range(2, 10_001))
    assert delay(2**31, 0.0) == CAP_MS


@both
def test_delays_never_shrink_as_failures_add_up(delay):
    delays = [delay(count, 0.0) for count in range(1, 10_001)]

    assert delays == sorted(delays)


@settings(max_examples=200, deadline=None)
@given(count=counts, jitter=jitters)
def test_jitter_only_makes_a_retry_later_and_by_little(count, jitter):
    exact, spread = failure_delay(count, 0.0), failure_delay(count, jitter)

    assert exact <= spread <= exact + max(BASE_MS, exact // 10)


def test_jobs_that_failed_together_do_not_return_together():
    together = {failure_delay(3, step / 500) for step in range(500)}

    assert len(together) > 400
    assert min(together) == failure_delay(3, 0.0)


@both
def test_a_large_base_is_capped_before_it_is_spread(delay):
    assert delay(30, 0.0, base_ms=10**12, cap_ms=5_000) == 5_000
