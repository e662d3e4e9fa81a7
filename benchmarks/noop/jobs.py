"""A job that does nothing."""

from headgate_django import job


@job("bench:noop")
def noop(number: int) -> None:
    """Return at once."""
