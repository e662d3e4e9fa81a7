"""What does a worker cost that has nothing to do?

CPU of the supervisor and of its process, as a share of one core, with the default options; then, in a second run,
the statements that the process sends, by Django's own log of them.

    python -m benchmarks.idle [--seconds 60]            # SQLite, in a temporary file
    python -m benchmarks.idle --postgres                # the PostgreSQL of the dev extra
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter

from benchmarks.opening import opened

SETTLE_SECONDS = 5.0
LIMIT = 0.02
"""Of one core, both processes together."""


def started(**variables: str):
    from tests.support.processes import Process

    process = Process([sys.executable, "-m", "django", "headgate_worker"], {**os.environ, **variables})
    process.wait_for_line(" ready: ")
    time.sleep(SETTLE_SECONDS)
    return process


def cpu(seconds: float) -> tuple[float, float]:
    """Shares of one core of the supervisor and of its process."""
    from tests.support import census

    process = started()
    try:
        pids = [process.pid, *process.children()]
        before = [census.cpu(pid) for pid in pids]
        time.sleep(seconds)
        supervisor, child = (census.cpu(pid) - start for pid, start in zip(pids, before, strict=True))
        return supervisor / seconds, child / seconds
    finally:
        process.end()


def statements(seconds: float) -> Counter[str]:
    """How many of each kind were sent."""
    process = started(BENCHMARK_LOG_STATEMENTS="1")
    try:
        before = len(process.lines)
        time.sleep(seconds)
        lines = process.lines[before:]
    finally:
        process.end()
    return Counter(kind(line) for line in lines if line.startswith("statement "))


def kind(line: str) -> str:
    """What a line of the log is about."""
    text = line.split(" ", 2)[2]
    if "data_version" in text:
        return "PRAGMA data_version"  # a look at the file: nothing is read from the tables
    return text.split()[0].rstrip(";") if text.strip() else "hand-written, of several lines"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", action="store_true", help="start the PostgreSQL of the dev extra")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with opened(postgres=options.postgres):
        from django.db import connection

        supervisor, child = cpu(options.seconds)
        sent = statements(options.seconds)
        vendor = connection.vendor
    print(f"{vendor}: supervisor {supervisor:.2%} of a core, process {child:.2%} (limit together {LIMIT:.0%})")
    print(f"{sum(sent.values()) / options.seconds:.1f} statements per second, of which")
    for name, count in sent.most_common():
        print(f"  {count / options.seconds:6.2f} {name}")
    return 0 if supervisor + child <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
