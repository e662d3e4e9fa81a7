"""What an operator may tell a worker through its row in the register."""

from __future__ import annotations

from enum import StrEnum


class Command(StrEnum):
    """One order to one worker process. It is obeyed once, and acknowledged in the row."""

    QUIET = "quiet"
    """Admit nothing more; what runs goes on, and so do leases and heartbeats."""
    RESUME = "resume"
    """Admit again."""
    RESTART = "restart"
    """Finish what runs, however long it takes, then be replaced by a fresh process."""
    TERMINATE = "terminate"
    """Stop as on SIGTERM, and do not come back."""
    RESIGN = "resign"
    """Give the duties back and take none again until a restart."""


class Status(StrEnum):
    """What a worker process says it does."""

    RUNNING = "running"
    QUIET = "quiet"
    RESTARTING = "restarting"
    STOPPING = "stopping"
