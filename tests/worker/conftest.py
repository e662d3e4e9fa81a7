"""Declarations of a test are forgotten after it."""

from tests.jobs.conftest import forgotten

__all__ = ["forgotten"]
