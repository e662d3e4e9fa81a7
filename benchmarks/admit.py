"""Does an admit cost more when more jobs wait?

Median times of rounds of admit and ack at a small and at a large backlog, in one run, on a database of their own
that is removed afterwards; and what a round touched: buffers on PostgreSQL, steps of the virtual machine on
SQLite. Only the ratios mean something: the large backlog should cost at most twice the small one. A fixed
statement is timed between the rounds, and times are compared in its units: other work on the machine matters less.

    python -m benchmarks.admit                    # SQLite, in a temporary file
    DATABASE_URL=postgres://… python -m benchmarks.admit
    python -m benchmarks.admit --postgres         # the PostgreSQL of the dev extra
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environ
from django.conf import settings

SMALL, LARGE, FINISHED = 1_000, 300_000, 300_000
ROUNDS, WARM_UP, CAPACITY = 200, 20, 10
LIMIT = 2.0
YARDSTICK = (
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) SELECT count(*) FROM n"
)


def database(postgres: bool, folder: str) -> dict[str, Any]:
    """Settings of the server or file; the benchmark works in Django's test database of it."""
    if postgres:
        from tests.support import postgres as own

        return own.database()
    parsed = environ.Env().db_url_config(os.environ.get("DATABASE_URL") or f"sqlite:///{folder}/admit.sqlite3")
    if parsed["ENGINE"].endswith("sqlite3"):
        parsed["OPTIONS"] = {"init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"}
        parsed["TEST"] = {"NAME": f"{folder}/test.sqlite3"}
    return dict(parsed)


def configure(postgres: bool, folder: str) -> None:
    import django

    settings.configure(
        DATABASES={"default": database(postgres, folder)},
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "headgate_django"],
        SECRET_KEY="only-for-benchmarks",
        USE_TZ=True,
    )
    django.setup()


@dataclass(frozen=True)
class Cost:
    """Of one admit of 10 jobs, of the ack of what it claimed, and of the yardstick, in microseconds (medians)."""

    admit: float
    ack: float
    yardstick: float
    touched: float

    @property
    def round(self) -> float:
        """In units of the yardstick."""
        return (self.admit + self.ack) / self.yardstick


def measure(rounds: int) -> Cost:
    """Admit 10 jobs and ack them, ``rounds`` times."""
    from django.db import connection, transaction

    from headgate_django.core.outcomes import Outcome
    from headgate_django.core.states import Event
    from headgate_django.gate.admit import Gate
    from headgate_django.lifecycle.ack import ack
    from tests.support.plans import watched

    gate = Gate("bench", queues={"default": 1})
    success = Outcome(event=Event.SUCCEED)
    admits, acks, yardsticks = [], [], []
    for number in range(WARM_UP + rounds):
        start = time.perf_counter()
        claims = gate.admit(CAPACITY)
        admitted = time.perf_counter()
        refused = ack([(claim, success) for claim in claims])
        ended = time.perf_counter()
        with connection.cursor() as cursor:
            cursor.execute(YARDSTICK)
        measured = time.perf_counter()
        assert len(claims) == CAPACITY
        assert not refused
        if number >= WARM_UP:
            admits.append((admitted - start) * 1e6)
            acks.append((ended - admitted) * 1e6)
            yardsticks.append((measured - ended) * 1e6)
    with transaction.atomic(), watched() as watch:
        for _ in range(10):
            ack([(claim, success) for claim in gate.admit(CAPACITY)])
        transaction.set_rollback(True)
    medians = (statistics.median(times) for times in (admits, acks, yardsticks))
    return Cost(*medians, watch.touched / 10)


def fill(count: int, prefix: str, partitions: int, **options: Any) -> None:
    """Waiting (or other) jobs in partitions of the default queue."""
    from tests.support.backlog import Backlog, load

    load(Backlog(count=count, prefix=prefix, partitions=partitions, partition="tenant", **options))


def tidy() -> None:
    """What autovacuum would have done by and by."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")


def compare(partitions: int, rounds: int) -> float:
    """Print the costs of the cases with so many partitions; the worst ratio."""
    from django.core.management import call_command

    from headgate_django.core.states import State

    call_command("flush", interactive=False, verbosity=0)
    spare = (ROUNDS + WARM_UP + 20) * CAPACITY
    cases = [
        (f"{SMALL:,} waiting at the end", lambda: fill(SMALL + spare, "small", partitions)),
        (f"{LARGE:,} waiting, loaded a moment ago", lambda: fill(LARGE, "large", partitions)),
        (f"{LARGE:,} waiting", lambda: None),
        (
            f"and {FINISHED:,} finished",
            lambda: fill(FINISHED, "finished", partitions, state=State.COMPLETED, payloads=False),
        ),
    ]
    print(f"\n{partitions} partitions{'admit µs':>40}{'ack µs':>9}{'ratio':>8}{'touched':>10}{'ratio':>8}")
    first: Cost | None = None
    worst = 1.0
    for name, prepare in cases:
        prepare()
        if "moment ago" not in name:
            tidy()
        cost = measure(rounds)
        first = first or cost
        ratio, touched = cost.round / first.round, cost.touched / first.touched
        worst = max(worst, ratio)
        print(f"  {name:<45}{cost.admit:9.0f}{cost.ack:9.0f}{ratio:8.2f}{cost.touched:10.0f}{touched:8.2f}")
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--postgres", action="store_true", help="start the PostgreSQL of the dev extra")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headgate-admit-") as folder:
        configure(options.postgres, folder)
        from django.db import connection

        before = connection.settings_dict["NAME"]
        connection.creation.create_test_db(verbosity=0, autoclobber=True)
        try:
            print(f"{connection.vendor}: rounds of admit({CAPACITY}) and ack, median of {options.rounds}")
            worst = max(compare(partitions, options.rounds) for partitions in (5, 200))
        finally:
            connection.creation.destroy_test_db(before, verbosity=0)
    print(f"\nworst time ratio {worst:.2f} (limit {LIMIT})")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main())
