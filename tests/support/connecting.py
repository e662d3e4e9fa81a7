"""This test's own connection, made to another place or in another way for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection


@contextmanager
def connecting(**changes: Any) -> Iterator[None]:
    """New connections of this thread are made with these settings changed: ``connecting(HOST="/nowhere")``."""
    kept = dict(connection.settings_dict)
    connection.close()
    connection.settings_dict.update(changes)
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(kept)
