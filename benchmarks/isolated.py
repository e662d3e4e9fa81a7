"""What does it cost to run a job in a process of its own?

The time from the claim to the first line of the handler, in a thread and in a process of its own, one job after
the other in a real ``headgate_worker``. Then how many isolated jobs a worker begins per second on several places.

    python -m benchmarks.isolated [--jobs 200] [--ballast 0]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")

import django

django.setup()

from django.core.management import call_command
from django.db import connection

from benchmarks.noop.jobs import BALLAST, entry, isolated_entry
from headgate_django import enqueue_many
from headgate_django.core.states import State
from headgate_django.models import Job

LIMIT_MS = 100.0
PLACES = 8


def run(handler, jobs: int, threads: int, ballast: int) -> tuple[list[float], list[float]]:
    """Instants of the claims and of the handlers' entries, in the order of the jobs' entries."""
    Job.objects.all().delete()
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder, "notes")
        enqueue_many([handler.envelope(str(notes)) for _ in range(jobs)])
        command = [sys.executable, "-m", "django", "headgate_worker", "--threads", str(threads), "--burst"]
        variables = {**os.environ, BALLAST: str(ballast)}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=variables)
        assert Job.objects.filter(state=State.COMPLETED).count() == jobs
        entries = sorted(float(line) for line in notes.read_text().splitlines())
    return sorted(Job.objects.values_list("attempted_at_ms", flat=True)), entries


def waits(handler, options: argparse.Namespace) -> list[float]:
    """Milliseconds from claim to entry of each job: they run one after the other, so they pair up by order."""
    claims, entries = run(handler, options.jobs, 1, options.ballast)
    assert all(entered < claimed for entered, claimed in zip(entries, claims[1:], strict=False))
    return [entered - claimed for claimed, entered in zip(claims, entries, strict=True)]


def main() -> None:
    """Print medians; exit 1 when an isolated job does not begin within 100 ms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--ballast", type=int, default=0, help="megabytes that the application takes")
    options = parser.parse_args()
    call_command("migrate", verbosity=0)
    print(
        f"{connection.vendor}, {options.jobs} jobs, ballast {options.ballast} MB; claim to entry in milliseconds"
    )
    medians = []
    for name, handler in (("in a thread", entry), ("in a process of its own", isolated_entry)):
        found = sorted(waits(handler, options))
        medians.append(statistics.median(found))
        late = found[int(len(found) * 0.95)]
        print(f"  {name:<26} median {medians[-1]:6.1f}   95 % within {late:6.1f}")
    _, entries = run(isolated_entry, options.jobs, PLACES, options.ballast)
    gap = statistics.median(later - earlier for earlier, later in pairwise(entries))
    rate = (len(entries) - 1) / (entries[-1] - entries[0]) * 1000
    print(f"  {PLACES} places: {rate:.0f} processes per second, median gap {gap:.1f} ms")
    sys.exit(0 if medians[-1] <= LIMIT_MS else 1)


if __name__ == "__main__":
    main()
