"""How many connections to the database a process has, and how much memory: seen from outside, from the kernel and
the server."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from pathlib import Path

from django.db import connection

NAME = "process-{}"


def name_connections() -> None:
    """In a worker's settings: every process that is forked names its PostgreSQL sessions after itself."""
    os.environ["PGAPPNAME"] = NAME.format(os.getpid())
    os.register_at_fork(after_in_child=lambda: os.environ.update(PGAPPNAME=NAME.format(os.getpid())))


def connections(pids: list[int]) -> dict[int, int]:
    """Connections of each process: sessions on PostgreSQL, open handles of the file on SQLite."""
    if connection.vendor == "postgresql":
        return _sessions(pids)
    path = os.path.realpath(connection.settings_dict["NAME"])
    return {pid: _handles(pid, path) for pid in pids}


def _sessions(pids: list[int]) -> dict[int, int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT application_name FROM pg_stat_activity WHERE datname = current_database()")
        found = Counter(name for (name,) in cursor.fetchall())
    return {pid: found[NAME.format(pid)] for pid in pids}


def _handles(pid: int, path: str) -> int:
    count = 0
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                count += os.readlink(entry) == path
    return count


def memory(pid: int) -> float:
    """Resident memory in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
