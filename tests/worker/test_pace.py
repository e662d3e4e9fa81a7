"""When a worker polls and beats next."""

from __future__ import annotations

import pytest

from headgate_django.models.fleet import STALE_MS
from headgate_django.worker.options import resolve
from headgate_django.worker.pace import Pace


@pytest.fixture
def pace() -> Pace:
    """Of an idle worker, whose pauses have grown."""
    pace = Pace(resolve({}, {}))
    pace.beaten()
    for _ in range(10):
        pace.admitted(0, came_round=True)
    return pace


def test_what_was_heard_is_looked_at_once_and_an_empty_look_does_not_shorten_the_pauses(pace):
    assert not pace.due

    pace.wake()
    assert pace.due
    pace.admitted(0, came_round=True)

    assert pace.until_next_poll > 1


def test_a_queue_that_was_empty_twice_is_dry_however_much_was_heard_in_between():
    pace = Pace(resolve({}, {}))
    assert not pace.dry
    pace.admitted(0, came_round=True)
    assert not pace.dry

    pace.wake()
    pace.admitted(0, came_round=True)

    assert pace.dry


def test_looks_at_a_part_of_very_many_streams_make_nothing_dry():
    pace = Pace(resolve({}, {}))
    for _ in range(5):
        pace.admitted(0, came_round=False)
    pace.admitted(0, came_round=True)
    assert not pace.dry

    pace.admitted(0, came_round=False)
    assert not pace.dry
    pace.admitted(0, came_round=True)

    assert pace.dry


@pytest.mark.parametrize("burst", [True, False])
def test_only_who_ends_when_nothing_is_left_does_not_idle_on_the_way_round(burst: bool):
    pace = Pace(resolve({"burst": burst}, {}))
    for _ in range(10):
        pace.admitted(0, came_round=False)

    assert (pace.until_next_poll < 0.1) == burst


def test_a_queue_is_not_dry_while_something_was_admitted_or_has_ended_since(pace):
    assert pace.dry

    pace.hurry()
    assert not pace.dry
    pace.admitted(0, came_round=True)
    pace.admitted(1, came_round=True)

    assert not pace.dry


def test_work_shortens_the_pauses(pace):
    pace.wake()
    pace.admitted(1, came_round=True)
    assert pace.due
    pace.admitted(0, came_round=True)

    assert pace.until_next_poll < 0.1


def test_a_message_makes_a_worker_renew_and_beat_at_once(pace):
    assert not pace.beat_due

    pace.beat_now()

    assert pace.beat_due
    pace.beaten()
    assert not pace.beat_due


def test_a_worker_with_a_long_lease_is_still_heard_of_often():
    pace = Pace(resolve({"lease": "3600"}, {}))

    pace.beaten()

    assert pace.until_next_beat <= STALE_MS / 1000 / 3
