"""One table of situations and what the gate must admit in each, on every database and by every form of its SQL."""

from __future__ import annotations

from headgate_django.core.states import State
from headgate_django.models import Partition, Queue
from tests.gate.scenario import ME, OTHER, Scenario, one

ORDER = (
    Scenario(
        claim="a higher priority goes first, then the earlier time, then the smaller id",
        waiting=(
            one("b", at=-1),
            one("a", at=-1),
            one("c", at=-2),
            one("low", priority=-1, at=-9),
            one("high", priority=1),
        ),
        expected=("high", "c", "a", "b", "low"),
    ),
    Scenario(
        claim="what does not fit stays, in order",
        waiting=(one("late", at=-1), one("high", priority=9), one("early", at=-2)),
        capacity=2,
        expected=("high", "early"),
        states={"late": State.AVAILABLE},
    ),
    Scenario(
        claim="two rate classes of a partition are one order",
        waiting=(
            one("p2", rate_class="api", priority=2),
            one("p3", rate_class="mail", priority=3),
            one("p1", rate_class="mail", priority=1),
            one("p0", rate_class="api"),
        ),
        capacity=3,
        expected=("p3", "p2", "p1"),
    ),
    Scenario(
        claim="jobs pinned to me and unpinned ones are one order",
        waiting=(one("free", at=-2), one("mine", sticky=ME, at=-3), one("mine too", sticky=ME, at=-1)),
        capacity=2,
        expected=("mine", "free"),
    ),
    Scenario(
        claim="a job pinned to another worker is not touched",
        waiting=(one("theirs", sticky=OTHER, priority=9), one("free"), one("behind", sticky="w0")),
        expected=("free",),
        states={"theirs": State.AVAILABLE, "behind": State.AVAILABLE},
    ),
    Scenario(
        claim="pinned streams on both sides of mine hide neither mine nor the unpinned",
        waiting=tuple(
            one(f"{key}-{sticky}", partition=key, sticky=sticky) for key in "ab" for sticky in ("w0", ME, "w2")
        ),
        expected=frozenset({"a-w1", "b-w1"}),
    ),
    Scenario(
        claim="keys are ordered by code point: case, accents and emoji hide nothing",
        waiting=tuple(
            one(f"{number}", partition=key, rate_class=key)
            for number, key in enumerate(["Z", "a", "É", "é", "🙂", "￿", "_"])
        ),
        expected=frozenset("0123456"),
    ),
)

PAUSES = (
    Scenario(
        claim="a paused queue admits nothing, the others go on",
        waiting=(one("held", queue="paused", priority=9), one("free", queue="open")),
        policies=(Queue(name="paused", paused=True),),
        expected=("free",),
        states={"held": State.AVAILABLE},
    ),
    Scenario(
        claim="a paused queue that is served by name admits nothing",
        waiting=(one("held", queue="paused"),),
        policies=(Queue(name="paused", paused=True),),
        serves={"paused": 5},
        expected=(),
    ),
    Scenario(
        claim="a paused partition admits nothing, its neighbours go on",
        waiting=(one("held", partition="a", priority=9), one("free", partition="b")),
        policies=(Partition(queue="default", key="a", paused=True),),
        expected=("free",),
        states={"held": State.AVAILABLE},
    ),
    Scenario(
        claim="a partition is paused in its own queue only",
        waiting=(one("held", queue="x", partition="a"), one("free", queue="y", partition="a")),
        policies=(Partition(queue="x", key="a", paused=True),),
        expected=("free",),
    ),
)

WEIGHTS = (
    Scenario(
        claim="queue weights 3:1 give 6:2 of 8",
        waiting=(one("a", queue="a", count=9), one("b", queue="b", count=9)),
        serves={"a": 3, "b": 1},
        capacity=8,
        expected={"a/": 6, "b/": 2},
    ),
    Scenario(
        claim="a weight on the queue wins over the worker's",
        waiting=(one("a", queue="a", count=9), one("b", queue="b", count=9)),
        policies=(Queue(name="b", weight=3),),
        serves={"a": 1, "b": 1},
        capacity=8,
        expected={"a/": 2, "b/": 6},
    ),
    Scenario(
        claim="a queue's weight of 1 leaves the worker's",
        waiting=(one("a", queue="a", count=9), one("b", queue="b", count=9)),
        policies=(Queue(name="a"), Queue(name="b")),
        serves={"a": 3, "b": 1},
        capacity=8,
        expected={"a/": 6, "b/": 2},
    ),
    Scenario(
        claim="a queue's weight counts for a worker that serves every queue",
        waiting=(one("a", queue="a", count=9), one("b", queue="b", count=9)),
        policies=(Queue(name="a", weight=3),),
        capacity=8,
        expected={"a/": 6, "b/": 2},
    ),
    Scenario(
        claim="priority never overrides the weight of a queue",
        waiting=(one("a", queue="a", count=9), one("b", queue="b", count=9, priority=100)),
        serves={"a": 3, "b": 1},
        capacity=8,
        expected={"a/": 6, "b/": 2},
    ),
    Scenario(
        claim="the weight of a queue never overrides priority inside it",
        waiting=(one("low", queue="a", count=3), one("high", queue="a", count=2, priority=1)),
        serves={"a": 100},
        capacity=3,
        expected=("high0", "high1", "low0"),
    ),
    Scenario(
        claim="partition weights 3:1 give 6:2 of 8",
        waiting=(one("a", partition="a", count=9), one("b", partition="b", count=9)),
        policies=(Partition(queue="default", key="a", weight=3),),
        capacity=8,
        expected={"default/a": 6, "default/b": 2},
    ),
    Scenario(
        claim="partitions share their queue's part, however many they are",
        waiting=(
            *(one(f"a{key}-", queue="a", partition=key, count=9) for key in "xyz"),
            one("b", queue="b", count=9),
        ),
        serves={"a": 1, "b": 1},
        capacity=6,
        expected={"a/x": 1, "a/y": 1, "a/z": 1, "b/": 3},
    ),
)

FAIRNESS = (
    Scenario(
        claim="partitions share equally, whatever their backlog",
        waiting=(one("a", partition="a", count=30), one("b", partition="b", count=4)),
        capacity=8,
        expected={"default/a": 4, "default/b": 4},
    ),
    Scenario(
        claim="work in flight counts: who has more running gets less",
        waiting=(one("a", partition="a", count=9), one("b", partition="b", count=9)),
        in_flight=(one("running", partition="a", count=4),),
        capacity=6,
        expected={"default/a": 1, "default/b": 5},
    ),
    Scenario(
        claim="work in flight is weighed",
        waiting=(one("a", partition="a", count=9), one("b", partition="b", count=9)),
        in_flight=(one("running", partition="a", count=3),),
        policies=(Partition(queue="default", key="a", weight=3),),
        capacity=5,
        expected={"default/a": 3, "default/b": 2},
    ),
    Scenario(
        claim="work in flight of another queue does not count",
        waiting=(one("a", partition="a", count=9), one("b", partition="b", count=9)),
        in_flight=(one("running", queue="other", partition="a", count=4),),
        capacity=6,
        expected={"default/a": 3, "default/b": 3},
    ),
    Scenario(
        claim="capacity that nobody else wants goes to the noisy tenant",
        waiting=(one("noisy", partition="a", count=20), one("quiet", partition="b")),
        in_flight=(one("running", partition="a", count=9),),
        expected={"default/a": 9, "default/b": 1},
    ),
    Scenario(
        claim="capacity that a heavy queue cannot use goes to a light one",
        waiting=(one("heavy", queue="a"), one("light", queue="b", count=20)),
        serves={"a": 1000, "b": 1},
        expected={"a/": 1, "b/": 9},
    ),
    Scenario(
        claim="tenants with ever more in flight are all reached in one admit",
        waiting=tuple(one(f"{key}", partition=key) for key in "abcdefgh"),
        in_flight=tuple(
            one(f"running {key}", partition=key, count=10 * level + 1) for level, key in enumerate("abcdefgh")
        ),
        expected=frozenset("abcdefgh"),
    ),
)

SCREEN = (
    Scenario(
        claim="a scheduled job waits until its time",
        waiting=(one("later", at=1_000),),
        after_ms=999,
        expected=(),
        states={"later": State.SCHEDULED},
    ),
    Scenario(
        claim="a scheduled job is admitted exactly at its time",
        waiting=(one("later", at=1_000),),
        after_ms=1_000,
        expected=("later",),
    ),
    Scenario(
        claim="a due job goes behind those that waited longer",
        waiting=(one("due", at=1_000), one("old"), one("high", at=1_000, priority=1)),
        after_ms=1_000,
        expected=("high", "old", "due"),
    ),
    Scenario(
        claim="a passed deadline archives the job and its slot goes to the next",
        waiting=(one("expired", priority=9, deadline=1_000), one("next", deadline=1_001)),
        after_ms=1_000,
        capacity=1,
        expected=("next",),
        states={"expired": State.ARCHIVED},
    ),
    Scenario(
        claim="quarantined content is not run and its slot goes to the next",
        waiting=(one("poison", priority=9, poisoned=True), one("next")),
        capacity=1,
        expected=("next",),
        states={"poison": State.QUARANTINED},
    ),
    Scenario(
        claim="quarantine is said before the deadline",
        waiting=(one("poison", poisoned=True, deadline=1_000),),
        after_ms=1_000,
        expected=(),
        states={"poison": State.QUARANTINED},
    ),
    Scenario(
        claim="a pending job is never admitted",
        waiting=(one("pending", pending=True, priority=9), one("next")),
        after_ms=10**12,
        expected=("next",),
        states={"pending": State.PENDING},
    ),
)

ROUTES = (
    Scenario(
        claim="no capacity admits nothing",
        waiting=(one("a"),),
        capacity=0,
        expected=(),
        states={"a": State.AVAILABLE},
    ),
    Scenario(claim="no work admits nothing", waiting=(), expected=()),
    Scenario(
        claim="a worker takes from its own queues only",
        waiting=(one("a", queue="a"), one("b", queue="b"), one("B", queue="B")),
        serves={"b": 1},
        expected=("b",),
        states={"a": State.AVAILABLE, "B": State.AVAILABLE},
    ),
    Scenario(
        claim="more queues than work is no trouble",
        waiting=(one("a", queue="q7"),),
        serves={f"q{number}": number + 1 for number in range(300)},
        expected=("a",),
    ),
    Scenario(claim="a queue without work is no trouble", waiting=(one("a"),), serves={"unknown": 9}, expected=()),
    Scenario(
        claim="every queue is served by *, named ones with their weight",
        waiting=(one("a", queue="a", count=9), one("b", queue="b", count=9)),
        serves={"*": 1, "b": 3},
        capacity=8,
        expected={"a/": 2, "b/": 6},
    ),
)

SCENARIOS = (*ORDER, *PAUSES, *WEIGHTS, *FAIRNESS, *SCREEN, *ROUTES)
