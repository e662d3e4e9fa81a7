"""How a process ended, in words for an operator and for the attempt."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from headgate_django.core.outcomes import Failure
from headgate_django.worker.memory import megabytes

DIED = "ProcessDied"
OUT_OF_MEMORY = "OutOfMemory"

ORPHANED = 69
"""Exit code of a job's own process that ended because its worker was gone (EX_UNAVAILABLE)."""


@dataclass(frozen=True, slots=True)
class Death:
    """The end of one process. ``code`` is Python's: negative for a signal."""

    code: int
    rss: int = 0
    out_of_memory: bool = False
    because: str = ""
    """Why we killed it ourselves, if we did."""

    @classmethod
    def from_status(cls, status: int, *, rss: int = 0, oom: bool = False, because: str = "") -> Death:
        """From what ``waitpid`` said. Only SIGKILL can be the work of a kernel without memory."""
        code = os.waitstatus_to_exitcode(status)
        return cls(code, rss, oom and code == -signal.SIGKILL, because)

    def __str__(self) -> str:
        if self.code >= 0:
            how = f"exit code {self.code}"
        else:
            how = f"killed by {signal_name(-self.code)}"
        if self.out_of_memory:
            how += ", out of memory"
        if self.because:
            how += f" ({self.because})"
        return how + (f", {megabytes(self.rss)} resident" if self.rss else "")

    def failure(self, what: str) -> Failure:
        """What the attempt says; ``what`` is the process that died: "worker process", "own process"."""
        name = OUT_OF_MEMORY if self.out_of_memory else DIED
        group = "oom" if self.out_of_memory else f"died{self.code}"
        return Failure(error_class=name, message=f"{what} died: {self}", group=group)


def signal_name(number: int) -> str:
    """``SIGSEGV (signal 11)``; real-time signals have no name."""
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"
