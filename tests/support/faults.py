"""Real faults of a database. Each is a context in which a write fails although the statement is right."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from headgate_django.models import Queue
from headgate_django.models.store import execute, fetch
from tests.support.connecting import connecting
from tests.support.locks import Running, held


@contextmanager
def ended_backend() -> Iterator[None]:
    connection.ensure_connection()
    pid = connection.connection.info.backend_pid
    Running(lambda: fetch("default", "SELECT pg_terminate_backend(%s, 10000)", [pid])).result()
    yield


@contextmanager
def read_only_server() -> Iterator[None]:
    """As after a failover to a standby."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    execute("default", f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    connection.close()
    try:
        yield
    finally:
        execute("default", "SET default_transaction_read_only = off")
        execute("default", f"ALTER DATABASE {name} RESET default_transaction_read_only")
        connection.close()


@contextmanager
def revoked_right() -> Iterator[None]:
    execute("default", "CREATE ROLE headgate_stranger LOGIN")
    try:
        with connecting(USER="headgate_stranger"):
            yield
    finally:
        execute("default", "DROP ROLE headgate_stranger")


@contextmanager
def refused_login() -> Iterator[None]:
    execute("default", "CREATE ROLE headgate_stranger NOLOGIN")
    try:
        with connecting(USER="headgate_stranger"):
            yield
    finally:
        execute("default", "DROP ROLE headgate_stranger")


@contextmanager
def unknown_host() -> Iterator[None]:
    with connecting(HOST="database.invalid"):
        yield


@contextmanager
def no_server() -> Iterator[None]:
    with connecting(HOST="/nowhere"):
        yield


@contextmanager
def locked_file() -> Iterator[None]:
    options = {**connection.settings_dict["OPTIONS"], "timeout": 0.05}
    with connecting(OPTIONS=options), held(lambda: Queue.objects.create(name="somebody else's")):
        yield


@contextmanager
def full_disk() -> Iterator[None]:
    [(pages,)] = fetch("default", "PRAGMA page_count")
    before = connection.settings_dict["OPTIONS"]
    limit = f"{before['init_command']}; PRAGMA max_page_count={pages}"
    execute("default", "CREATE TABLE filler (bytes BLOB)")
    try:
        with connecting(OPTIONS={**before, "init_command": limit}):
            yield
    finally:
        execute("default", "DROP TABLE filler")


@contextmanager
def no_file() -> Iterator[None]:
    with connecting(NAME="/nowhere/queue.sqlite3"):
        yield


@contextmanager
def damaged_file() -> Iterator[None]:
    with tempfile.NamedTemporaryFile() as damaged:
        damaged.write(b"no database " * 1_000)
        damaged.flush()
        with connecting(NAME=damaged.name, OPTIONS={}):
            yield
