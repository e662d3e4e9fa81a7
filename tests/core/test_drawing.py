"""What is drawn of a partition is the beginning of its line, over all of its streams."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate_django.core.allocation import Group, Stream
from headgate_django.core.drawing import MIN_DRAWN, Candidate, merge, requests

GROUPS = [Group("q", "a"), Group("q", "b"), Group("p", "a")]
STREAMS = [Stream(*group, rate_class, "") for group in GROUPS for rate_class in ("", "c", "d")]

jobs = st.lists(st.tuples(st.sampled_from(STREAMS), st.integers(-2, 2), st.integers(0, 5)), max_size=60).map(
    lambda found: [candidate(number, *one) for number, one in enumerate(found)]
)


def candidate(number: int, stream: Stream, priority: int, at: int) -> Candidate:
    return Candidate((-priority, at, f"job{number:03}"), stream.group, stream.rate_class, 1, 0, "")


def draw(waiting: list[Candidate], shares: dict[Group, int], ahead: int):
    wanted = requests(shares, STREAMS, ahead)
    lines = {stream: sorted(job for job in waiting if job.stream == stream) for stream in STREAMS}
    return merge(wanted, {stream: lines[stream][:count] for stream, count in wanted})


shares = st.dictionaries(st.sampled_from(GROUPS), st.integers(1, 30))


@settings(max_examples=200, deadline=None)
@given(waiting=jobs, shares=shares, ahead=st.integers(0, 20))
def test_the_candidates_of_a_partition_are_the_beginning_of_its_line(waiting, shares, ahead):
    drawn = draw(waiting, shares, ahead)

    for group in GROUPS:
        line = sorted(job for job in waiting if job.group == group)
        found = [job for job in drawn.candidates if job.group == group]
        assert found == line[: len(found)]
        assert bool(found) == bool(line and group in shares)


@settings(max_examples=200, deadline=None)
@given(waiting=jobs, shares=shares, ahead=st.integers(0, 20))
def test_a_dry_partition_was_drawn_whole_and_the_others_have_enough_or_go_on(waiting, shares, ahead):
    drawn = draw(waiting, shares, ahead)

    for group in shares:
        line = [job for job in waiting if job.group == group]
        found = [job for job in drawn.candidates if job.group == group]
        if group in drawn.dry:
            assert len(found) == len(line)
        else:
            assert len(found) >= min(shares[group], MIN_DRAWN)


def test_nothing_is_drawn_from_a_partition_without_a_share():
    assert requests({GROUPS[0]: 2}, STREAMS, 0) == [(stream, 2) for stream in STREAMS[:3]]


def test_a_partition_of_many_streams_is_drawn_in_parts():
    streams = [Stream("q", "a", f"c{number}", "") for number in range(100)]

    assert {count for _, count in requests({Group("q", "a"): 100}, streams, 0)} == {MIN_DRAWN}
