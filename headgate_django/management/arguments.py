"""Values of options, refused with a sentence when they make no sense."""

from __future__ import annotations

from argparse import ArgumentTypeError

LONGEST = 1e9


def whole_number(text: str) -> int:
    """A count."""
    try:
        number = int(text)
    except ValueError:
        raise ArgumentTypeError(f"must be a whole number, not {text!r}") from None
    if number < 0:
        raise ArgumentTypeError(f"must be at least 0, not {number}")
    return number


def seconds(text: str) -> float:
    """A duration."""
    try:
        number = float(text)
    except ValueError:
        raise ArgumentTypeError(f"must be a number of seconds, not {text!r}") from None
    if not 0 <= number < LONGEST:
        raise ArgumentTypeError(f"must be at least 0, and finite, not {text}")
    return number
