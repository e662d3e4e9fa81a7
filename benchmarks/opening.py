"""A fresh database for a benchmark: SQLite in a temporary file, or the PostgreSQL of the dev extra."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def opened(*, postgres: bool) -> Iterator[None]:
    """Django is set up and the tables are there; nothing of either is imported before."""
    with tempfile.TemporaryDirectory(prefix="headgate-benchmark-") as folder:
        if not postgres:
            os.environ["BENCHMARK_SQLITE"] = f"{folder}/queue.sqlite3"
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")
        import django
        from django.core.management import call_command
        from django.db import connection

        django.setup()
        call_command("migrate", verbosity=0)
        connection.close()
        yield
        connection.close()
