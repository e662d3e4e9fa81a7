"""Durations and instants as people write them, in the integer milliseconds that the store keeps."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from headgate_django.exceptions import Duration, InvalidJob

MAX_MS = 100 * 366 * 24 * 3600 * 1000
"""A century: anything longer is a mistake, and far from any integer limit."""

MAX_INSTANT_MS = 253_402_300_799_999
"""The last millisecond that a datetime can show."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_ms(value: Duration, field: str, *, minimum: int = 1) -> int:
    """Milliseconds of a duration in seconds, or of a timedelta.

    A positive duration below a millisecond is refused instead of becoming 0, and so are NaN, infinities,
    booleans and anything longer than a century. Raises InvalidJob naming ``field``.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        raise InvalidJob(field, f"must be seconds or a timedelta, not {type(value).__name__}")
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, float) and not math.isfinite(seconds):
        raise InvalidJob(field, f"must be finite, not {seconds}")
    if abs(seconds) > MAX_MS / 1000:
        raise InvalidJob(field, "must be at most a century")
    milliseconds = round(seconds * 1000)
    if seconds > 0 and milliseconds == 0:
        raise InvalidJob(field, "must be at least a millisecond")
    if milliseconds < minimum or (seconds < 0 <= minimum):
        raise InvalidJob(field, f"must be at least {minimum / 1000:g} seconds, not {seconds:g}")
    return milliseconds


def instant_ms(value: datetime, field: str) -> int:
    """Milliseconds since the epoch of an aware datetime. Raises InvalidJob naming ``field``."""
    if not isinstance(value, datetime):
        raise InvalidJob(field, f"must be an aware datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise InvalidJob(field, "is a naive datetime; give it a time zone (django.utils.timezone.make_aware)")
    milliseconds = (value - _EPOCH) // _MILLISECOND
    if milliseconds < 1:  # 0 would mean "none" in the store; a time this old was never set, or has the wrong unit
        raise InvalidJob(field, f"must be after 1970, not {value.isoformat()}")
    return milliseconds


def from_ms(milliseconds: int) -> datetime:
    """The aware UTC datetime of an instant in the store's milliseconds."""
    return _EPOCH + timedelta(milliseconds=milliseconds)
