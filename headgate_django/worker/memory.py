"""How much memory a process uses now, and whether the kernel has been killing for want of it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from pathlib import Path

PROC = Path("/proc")
"""Where Linux tells about processes; other systems are asked through ``ps``."""

_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control", "/proc/vmstat")


def rss(pid: int) -> int:
    """Resident memory of a process in bytes, now; 0 when it is gone or cannot be read."""
    if PROC.exists():
        return _statm(pid, 1)
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        answer = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False
        )
        return int(answer.stdout.strip() or 0) * 1024
    return 0


def data(pid: int) -> int:
    """What counts against RLIMIT_DATA, in bytes: touched or not; 0 where that cannot be read."""
    return _statm(pid, 5)


def oom_kills() -> int:
    """How many processes the kernel has killed here for want of memory, as far as it says."""
    total = 0
    for path in _EVENTS:
        with contextlib.suppress(OSError):
            found = re.search(r"^oom_kill (\d+)$", Path(path).read_text(), re.MULTILINE)
            total += int(found.group(1)) if found else 0
    return total


def megabytes(size: int) -> str:
    """``84 MB``."""
    return f"{size / 1_048_576:.0f} MB"


def _statm(pid: int, field: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((PROC / str(pid) / "statm").read_text().split()[field]) * os.sysconf("SC_PAGE_SIZE")
    return 0
