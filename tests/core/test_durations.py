"""Durations and instants: what people write becomes exact milliseconds, or is refused by name."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate_django.core.durations import MAX_INSTANT_MS, MAX_MS, from_ms, instant_ms, to_ms
from headgate_django.exceptions import InvalidJob


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1_000),
        (0.8, 800),
        (1.5, 1_500),
        (0.001, 1),
        (timedelta(minutes=2), 120_000),
        (timedelta(milliseconds=1), 1),
        (timedelta(microseconds=1_500), 2),
        (MAX_MS / 1000, MAX_MS),
    ],
)
def test_seconds_and_timedeltas_become_milliseconds(value, expected):
    assert to_ms(value, "delay") == expected


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (0.0004, "at least a millisecond"),
        (timedelta(microseconds=1), "at least a millisecond"),
        (0, "at least 0.001 seconds"),
        (-1, "at least 0.001 seconds"),
        (timedelta(seconds=-1), "at least 0.001 seconds"),
        (math.nan, "finite"),
        (math.inf, "finite"),
        (-math.inf, "finite"),
        (True, "not bool"),
        ("5", "not str"),
        (None, "not NoneType"),
        (Decimal("5"), "not Decimal"),
        (101 * 366 * 86_400, "at most a century"),
        (timedelta.max, "at most a century"),
        (10**400, "at most a century"),
        (-(10**400), "at most a century"),
    ],
)
def test_what_is_no_positive_duration_is_refused_with_its_field(value, problem):
    with pytest.raises(InvalidJob, match=f"delay: .*{problem}") as caught:
        to_ms(value, "delay")

    assert caught.value.field == "delay"


@pytest.mark.parametrize("value", [0, 0.0, -0.0, timedelta(0)])
def test_nothing_is_a_duration_where_zero_is_allowed(value):
    assert to_ms(value, "delay", minimum=0) == 0


@pytest.mark.parametrize("value", [-0.0001, -1e-9, timedelta(microseconds=-1), -5])
def test_a_negative_duration_never_rounds_up_to_zero(value):
    with pytest.raises(InvalidJob, match="delay: must be at least 0 seconds"):
        to_ms(value, "delay", minimum=0)


@settings(max_examples=200, deadline=None)
@given(st.floats(min_value=1e-12, max_value=MAX_MS / 1000))
def test_a_positive_duration_is_never_stored_as_zero(seconds):
    try:
        assert to_ms(seconds, "timeout", minimum=0) >= 1
    except InvalidJob:
        assert seconds < 0.001


@settings(max_examples=200, deadline=None)
@given(st.datetimes(min_value=datetime.fromisoformat("1970-01-03"), timezones=st.timezones()))
def test_an_aware_datetime_round_trips_to_the_millisecond(value):
    shown = from_ms(instant_ms(value, "at"))

    assert timedelta(0) <= value.astimezone(UTC) - shown < timedelta(milliseconds=1)


def test_the_two_instants_of_a_repeated_hour_are_an_hour_apart():
    early = datetime(2025, 10, 26, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))

    assert instant_ms(early.replace(fold=1), "at") - instant_ms(early, "at") == 3_600_000


def test_the_last_instant_that_can_be_shown_is_the_limit():
    assert instant_ms(datetime.max.replace(tzinfo=UTC), "at") == MAX_INSTANT_MS
    assert from_ms(MAX_INSTANT_MS).year == 9999


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (datetime.fromisoformat("2026-01-01"), "naive datetime"),
        (date(2026, 1, 1), "not date"),
        (1_767_225_600, "not int"),
        ("2026-01-01", "not str"),
        (datetime(1970, 1, 1, tzinfo=UTC), "after 1970"),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "after 1970"),
        (datetime(1969, 12, 31, tzinfo=UTC), "after 1970"),
    ],
)
def test_what_is_no_aware_instant_is_refused_with_its_field(value, problem):
    with pytest.raises(InvalidJob, match=f"deadline: .*{problem}"):
        instant_ms(value, "deadline")
