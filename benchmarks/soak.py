"""Does anything grow? A day of a worker in miniature: very many jobs, then very many polls of an empty queue.

A real worker drains no-op jobs that are fed to it, then idles (see ``benchmarks.restless`` for how a poll takes
milliseconds instead of seconds). Meanwhile the memory of its processes and the number of their connections
are looked at. Growth is the slope over all looks after the first quarter of a phase, the warm-up.

    python -m benchmarks.soak                # SQLite, in a temporary file
    python -m benchmarks.soak --postgres     # the PostgreSQL of the dev extra
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.opening import opened

LIMIT_MB = 2.0
"""Most that a process may grow, per 100,000 jobs or polls."""

FEED, LOW = 1_000, 3_000
SHOWN = 12
"""Looks at each phase that are printed; ten times as many are taken."""
MAX_SILENCE = 300.0


@dataclass
class Look:
    """What was seen when ``done`` jobs or polls were done. Memory in MB."""

    done: int
    memory: dict[int, float]
    connections: dict[int, int]


@dataclass
class Phase:
    """The looks of a phase."""

    name: str
    looks: list[Look] = field(default_factory=list)

    def growth(self, pid: int) -> float:
        """MB per 100,000, after the warm-up."""
        settled = [look for look in self.looks if look.done >= self.looks[-1].done / 4]
        return (
            statistics.linear_regression(
                [look.done for look in settled], [look.memory[pid] for look in settled]
            ).slope
            * 100_000
        )

    @property
    def most_connections(self) -> int:
        """Of one process, at any time."""
        return max(max(look.connections.values()) for look in self.looks)


@contextmanager
def running(threads: int, processes: int) -> Iterator[list[int]]:
    """A worker; the pids of its supervisor and its processes."""
    from tests.support.processes import Process

    command = [sys.executable, "-m", "benchmarks.restless", "--lease", "3", "--threads", str(threads)]
    process = Process([*command, "--processes", str(processes)], dict(os.environ))
    try:
        process.wait_for_line("ready")
        yield [process.pid, *process.children()]
        process.signal(signal.SIGTERM)
        if process.wait():
            sys.exit(f"the worker failed:\n{process.output}")
    finally:
        process.end()


def watch(name: str, pids: list[int], target: int, done: Callable[[], int]) -> Phase:
    """Look at the processes until ``done()`` has grown by ``target``."""
    from tests.support import census

    phase = Phase(name)
    start, began, news = done(), time.monotonic(), time.monotonic()
    print(f"\n{name:>10}{'supervisor MB':>16}{'processes MB':>24}{'connections':>20}")
    while not phase.looks or phase.looks[-1].done < target:
        time.sleep(0.1)
        now = done() - start
        if phase.looks and now < min(target, phase.looks[-1].done + target / SHOWN / 10):
            if time.monotonic() - news > MAX_SILENCE:
                sys.exit(f"no {name} for {MAX_SILENCE:.0f} s")
            continue
        news = time.monotonic()
        phase.looks.append(Look(now, {pid: census.memory(pid) for pid in pids}, census.connections(pids)))
        if len(phase.looks) % 10 == 1:
            show(phase.looks[-1], pids)
    show(phase.looks[-1], pids)
    print(f"  {phase.looks[-1].done / (time.monotonic() - began):.0f} {name} per second")
    return phase


def show(look: Look, pids: list[int]) -> None:
    """One line."""
    supervisor, *children = pids
    memory = " ".join(f"{look.memory[pid]:.2f}" for pid in children)
    count = " ".join(str(look.connections[pid]) for pid in pids)
    print(f"{look.done:10,}{look.memory[supervisor]:16.2f}{memory:>24}{count:>20}", flush=True)


def soak(options: argparse.Namespace) -> list[Phase]:
    """Both phases, with the same processes."""
    from django.db.models import Sum

    from benchmarks.noop.jobs import noop
    from headgate_django import enqueue_many
    from headgate_django.core.states import State
    from headgate_django.models import Job, Worker

    fed = 0

    def jobs_done() -> int:
        nonlocal fed
        waiting = Job.objects.filter(state=State.AVAILABLE).count()
        if waiting < LOW and fed < options.jobs:
            enqueue_many([noop.envelope(fed + number) for number in range(FEED)])
            fed += FEED
            waiting += FEED
        return fed - waiting  # done, but for the few that run

    def polls_done() -> int:
        return min(Worker.objects.values_list("empty_polls", flat=True), default=0)

    def all_finished() -> int:
        return int(not Job.objects.exclude(state=State.COMPLETED).exists())

    with running(options.threads, options.processes) as pids:
        phases = [watch("jobs", pids, options.jobs, jobs_done)]
        while not all_finished():
            time.sleep(0.5)
        phases.append(watch("polls", pids, options.polls, polls_done))
        crashes = Job.objects.aggregate(total=Sum("crash_attempt"))["total"]
        assert crashes == 0, f"{crashes} crashes were counted"
    return phases


def judge(phases: list[Phase], allowed: int) -> bool:
    """Print the verdict; whether all is well."""
    well = True
    print()
    for phase in phases:
        pids = list(phase.looks[0].memory)
        growths = [phase.growth(pid) for pid in pids]
        told = ", ".join(f"{growth:+.2f}" for growth in growths)
        print(
            f"{phase.name:>6}: MB per 100,000 in supervisor and processes {told} (limit {LIMIT_MB}); "
            f"at most {phase.most_connections} connections of a process (limit {allowed})"
        )
        well = well and max(growths) <= LIMIT_MB and phase.most_connections <= allowed
    print("flat" if well else "IT GROWS")
    return well


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", action="store_true", help="start the PostgreSQL of the dev extra")
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--polls", type=int, default=200_000, help="of an empty queue, by each process")
    parser.add_argument("--threads", type=int, default=10)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    with opened(postgres=options.postgres):
        from django.db import connection

        phases = soak(options)
        print(f"\n{connection.vendor}, {options.processes} x {options.threads} threads")
    return 0 if judge(phases, options.threads + 2) else 1


if __name__ == "__main__":
    sys.exit(main())
