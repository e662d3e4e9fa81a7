"""The walk over streams: complete, by turns, and the same in every form."""

from __future__ import annotations

import os
from random import Random

import pytest

from headgate_django.core.allocation import Stream
from headgate_django.core.states import State
from headgate_django.core.walk import MAX_STREAMS, Cursor, Walk
from headgate_django.gate.admit import Gate
from headgate_django.gate.streams import MAX_QUEUES, find_queues, walk_streams
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.models import Job
from tests.support.backlog import Backlog, load
from tests.support.builders import EnvelopeFactory

FORMS = [True, False] if os.environ.get("HEADGATE_TEST_DB") == "postgres" else [True]
KEYS = [
    "",
    "a",
    "A",
    "b",
    "_",
    "~",
    "é",
    "É",
    "ß",
    "z",
    "ä",
    "🙂",
    "\uffff",
    "\U0010ffff",
    "a\u0301",
    " ",
    "%",
    "a" * 255,
]

both_forms = pytest.mark.parametrize(
    "portable", FORMS, ids=lambda portable: "portable" if portable else "own form"
)


def walk(cursor: Cursor, *queues: str, worker_id: str = "w1", portable: bool = True) -> Walk:
    return walk_streams(queues or ("default",), worker_id, cursor, using="default", portable=portable)


@both_forms
@pytest.mark.parametrize("seed", range(3))
def test_a_walk_sees_exactly_the_streams_that_the_worker_may_take(now, portable: bool, seed: int):
    rng = Random(seed)
    enqueue(
        [
            EnvelopeFactory(
                queue=rng.choice("pq"),
                partition_key=rng.choice(KEYS),
                rate_class=rng.choice(KEYS),
                sticky_worker=rng.choice(["", "", "w0", "w1", "w2", "W1", "w", "w11", "~"]),
            )
            for _ in range(400)
        ]
    )
    stored = Job.objects.filter(queue="p", sticky_worker__in=["", "w1"])
    expected = {
        Stream(*row) for row in stored.values_list("queue", "partition_key", "rate_class", "sticky_worker")
    }

    cursor, found = Cursor(), []
    for _ in range(2):  # the second begins in the middle, wherever that is
        there = walk(cursor, "p", portable=portable)
        while not there.done:
            found += there.window()
        cursor.position["p"] = tuple(rng.choice(found)[1:])

    assert sorted(found) == sorted([*expected, *expected])


@both_forms
def test_each_of_600_partitions_is_seen_within_three_windows(now, portable: bool):
    load(Backlog(count=1_200, partitions=600, partition="p"))
    cursor = Cursor()
    seen: list[set[str]] = []

    for _ in range(12):
        window = walk(cursor, portable=portable).window()
        assert len(window) == MAX_STREAMS
        seen.append({stream.partition_key for stream in window})

    for start in range(10):
        assert len(set.union(*seen[start : start + 3])) == 600


def test_1200_slots_serve_each_of_600_partitions(now):
    load(Backlog(count=6_000, partitions=600, partition="p"))
    gate = Gate("w1")

    for _ in range(15):
        gate.admit(80)

    running = Job.objects.filter(state=State.RUNNING).values_list("partition_key", flat=True)
    assert len(set(running)) == 600


def test_one_admit_reaches_streams_beyond_the_first_window(now, admit):
    load(Backlog(count=600, partitions=600, partition="p"))

    assert len(admit(600)) == 600


def test_streams_of_other_workers_do_not_end_an_admit(now, admit):
    load(
        Backlog(count=600, partitions=600, partition="p", sticky_worker="w2"),
        Backlog(count=1, prefix="z", partition="z"),
    )

    [claim] = admit(1)

    assert claim.partition_key == "z"


@both_forms
def test_a_queue_of_many_partitions_leaves_others_their_part_of_the_window(now, portable: bool):
    load(
        Backlog(count=600, queue="big", partitions=600, partition="p"), Backlog(count=1, prefix="s", queue="small")
    )

    window = walk(Cursor(), "big", "small", portable=portable).window()

    assert Stream("small", "", "", "") in window
    assert len(window) == MAX_STREAMS // 2 + 1


def test_the_cursor_remembers_only_queues_that_it_is_in_the_middle_of(now):
    load(Backlog(count=300, partitions=300, partition="p"), Backlog(count=1, prefix="s", queue="small"))
    cursor = Cursor()

    walk(cursor, "default", "small", "empty").window()

    assert set(cursor.position) == {"default"}


@pytest.mark.parametrize("queues", [1, 5, MAX_QUEUES, MAX_QUEUES + 1, 600])
def test_every_queue_is_found_by_turns(now, queues: int):
    load(Backlog(count=queues, queues=queues, queue="q"))
    cursor = Cursor()

    looks = [find_queues(cursor, using="default") for _ in range(1 + queues // MAX_QUEUES)]

    assert all(len(look) == len(set(look)) <= MAX_QUEUES for look in looks)
    assert len(set().union(*looks)) == queues


def test_a_worker_of_every_queue_serves_600_queues(now):
    load(Backlog(count=1_200, queues=600, queue="q"))
    gate = Gate("w1", queues={"*": 1})

    for _ in range(6):
        gate.admit(200)

    assert len(set(Job.objects.filter(state=State.RUNNING).values_list("queue", flat=True))) == 600
