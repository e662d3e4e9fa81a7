"""Declarations of a test are forgotten after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate_django.jobs import registry


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Whatever the test registers is unregistered at its end."""
    before = dict(registry._handlers)
    yield
    registry._handlers.clear()
    registry._handlers.update(before)
