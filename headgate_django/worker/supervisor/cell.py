"""A process that runs one job as its supervisor sees it."""

from __future__ import annotations

from dataclasses import dataclass

from headgate_django.lifecycle.fence import Held


@dataclass
class CellProcess:
    """A process that runs one job of a child."""

    pid: int
    token: int
    run: Held
    memory_limit: int
    baseline: int
    """What the loaded application takes in every process, in bytes."""
    because: str = ""
