"""How close one worker process comes to a bare SQL loop.

No-op jobs are drained by a real ``headgate_worker --threads 10 --burst`` and, in the same run and on the same
table, by a loop of hand-written SQL with the same batch size. Both are timed by the rows' own times, from the
first claim to the last end, and only their ratio means something.

    python -m benchmarks.drain [--jobs 10000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")

import django

django.setup()

from django.core.management import call_command
from django.db import connection

from benchmarks.noop.jobs import noop
from headgate_django import enqueue_many

BATCH = 10
CLAIM = """
UPDATE headgate_django_job
SET state = 'running', fence = fence + 1, lease_id = 'loop', worker_id = 'loop',
    lease_expires_at_ms = (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint + 30000,
    attempted_at_ms = (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint
WHERE id IN (
    SELECT id FROM headgate_django_job WHERE state = 'available'
    ORDER BY queue, partition_key, rate_class, sticky_worker, priority DESC, scheduled_at_ms, id
    LIMIT %s FOR UPDATE SKIP LOCKED
)
RETURNING id
"""
PAYLOADS = "SELECT job_id, data FROM headgate_django_payload WHERE job_id = ANY(%s)"
FINISH = """
UPDATE headgate_django_job
SET state = 'completed', lease_id = '', lease_expires_at_ms = NULL,
    finalized_at_ms = (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint
WHERE id = ANY(%s) AND state = 'running' AND lease_id = 'loop'
"""
SPAN = """
SELECT count(*), max(finalized_at_ms) - min(attempted_at_ms)
FROM headgate_django_job
WHERE state = 'completed'
"""


def fill(jobs: int) -> None:
    """An empty table, then ``jobs`` waiting jobs, as freshly vacuumed as they can be."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE headgate_django_job CASCADE")
    for start in range(0, jobs, 1000):
        enqueue_many([noop.envelope(number) for number in range(start, min(start + 1000, jobs))])
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE headgate_django_job, headgate_django_payload")


def rate(jobs: int) -> float:
    """Jobs per second, by the rows' own times."""
    with connection.cursor() as cursor:
        cursor.execute(SPAN)
        count, milliseconds = cursor.fetchone()
    assert count == jobs, f"{count} of {jobs} jobs were completed"
    return count / milliseconds * 1000


def drain_with_loop(jobs: int) -> float:
    """The bare loop: claim a batch, read its payloads, finish it."""
    fill(jobs)
    with connection.cursor() as cursor:
        while True:
            cursor.execute(CLAIM, [BATCH])
            ids = [row[0] for row in cursor.fetchall()]
            if not ids:
                break
            cursor.execute(PAYLOADS, [ids])
            cursor.fetchall()
            cursor.execute(FINISH, [ids])
    return rate(jobs)


def drain_with_worker(jobs: int) -> float:
    """One real worker process."""
    fill(jobs)
    command = [sys.executable, "-m", "django", "headgate_worker", "--threads", str(BATCH), "--burst"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return rate(jobs)


def main() -> None:
    """Print each round and the median ratio; exit 1 below 20 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if connection.vendor != "postgresql":
        sys.exit("this benchmark needs PostgreSQL")
    call_command("migrate", verbosity=0)
    ratios = []
    for _ in range(options.rounds):
        loop, worker = drain_with_loop(options.jobs), drain_with_worker(options.jobs)
        ratios.append(worker / loop)
        print(f"loop {loop:8.0f} jobs/s   worker {worker:8.0f} jobs/s   ratio {worker / loop:.0%}")
    median = statistics.median(ratios)
    print(f"median ratio {median:.0%} of a bare SQL loop with batches of {BATCH}")
    sys.exit(0 if median >= 0.20 else 1)


if __name__ == "__main__":
    main()
