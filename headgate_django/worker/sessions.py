"""A job's own process and everything it started: one session, watched and ended as a whole."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headgate_django.worker.memory import PROC

ROUNDS = 50
"""How often a session is looked through until nothing new appears in it."""


@dataclass
class Session:
    """The living processes of one session, and their resident memory together, in bytes."""

    pids: list[int] = field(default_factory=list)
    rss: int = 0
    zombies: int = 0
    """Those that have ended, and still take a number each because nobody has waited for them."""

    @property
    def size(self) -> int:
        """How many numbers of processes it takes."""
        return len(self.pids) + self.zombies


def sessions() -> dict[int, Session]:
    """Every session of this machine, by its leader's pid. Empty where the kernel does not list them."""
    found: dict[int, Session] = {}
    with contextlib.suppress(OSError):  # no descriptor is left to look with
        for pid, leader, rss, is_zombie in _processes():
            session = found.setdefault(leader, Session())
            if is_zombie:
                session.zombies += 1
            else:
                session.pids.append(pid)
                session.rss += rss
    return found


def living(leader: int) -> list[int]:
    """What lives of a session. Where the kernel does not list them, its leader stands for all."""
    found = sessions()
    if os.getsid(0) in found:
        return found.get(leader, Session()).pids
    return [leader] if _signal_group(leader, 0) else []


def end_session(leader: int) -> None:
    """Kill a session. It is stopped first, so that nothing in it can go on forking while it is looked through."""
    _signal_group(leader, signal.SIGSTOP)
    _end_listed(leader, spared=set())
    _signal_group(leader, signal.SIGKILL)


def end_others() -> None:
    """Kill everything in the session that this process leads, but itself; itself too where they are not listed."""
    own = os.getpid()
    if own not in sessions():
        os.killpg(0, signal.SIGKILL)
    _end_listed(own, spared={own})


def _end_listed(leader: int, spared: set[int]) -> None:
    seen: set[int] = set()
    for _ in range(ROUNDS):
        fresh = set(sessions().get(leader, Session()).pids) - seen - spared
        if not fresh:
            break
        for pid in fresh:
            _signal(pid, signal.SIGSTOP)
        seen |= fresh
    for pid in seen:
        _signal(pid, signal.SIGKILL)


def _processes() -> Iterator[tuple[int, int, int, bool]]:
    if not PROC.exists():
        return
    page = os.sysconf("SC_PAGE_SIZE")
    for name in os.listdir(PROC):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name of the program, in brackets, may hold anything: the numbers begin behind the last bracket.
            fields = Path(PROC, name, "stat").read_bytes().rpartition(b")")[2].split()
            yield int(name), int(fields[3]), int(fields[21]) * page, fields[0] == b"Z"


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _signal_group(leader: int, number: int) -> bool:
    """Whether there was anybody to hear it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
        return True
    return False
