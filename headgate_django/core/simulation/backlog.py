"""The waiting jobs: in memory what the ready index is in the database."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headgate_django.core.admission import EVERY_QUEUE
from headgate_django.core.allocation import Stream
from headgate_django.core.drawing import Candidate
from headgate_django.core.walk import Bound, Probe


class Waiting(NamedTuple):
    """A job that has arrived. ``load``: the number of its class of tenants."""

    at_ms: int
    number: int
    weight: int
    duration_ms: int
    load: int


@dataclass(slots=True)
class _Line:
    """A stream: its jobs in the order of arrival, for each priority."""

    stream: Stream
    by_priority: dict[int, deque[Waiting]] = field(default_factory=dict)
    count: int = 0

    def add(self, priority: int, job: Waiting) -> None:
        if priority not in self.by_priority:
            self.by_priority[priority] = deque()
            self.by_priority = dict(sorted(self.by_priority.items(), reverse=True))
        self.by_priority[priority].append(job)
        self.count += 1

    def pop(self, count: int) -> list[tuple[int, Waiting]]:
        found: list[tuple[int, Waiting]] = []
        for priority, jobs in self.by_priority.items():
            for _ in range(min(count - len(found), len(jobs))):
                found.append((priority, jobs.popleft()))
        self.count -= len(found)
        return found

    def put_back(self, priority: int, job: Waiting) -> None:
        self.by_priority[priority].appendleft(job)
        self.count += 1


@dataclass
class Backlog:
    """Streams in the order of their bounds; what was drawn is out of its line until it is taken or put back."""

    count: int = 0
    lines: dict[Stream, _Line] = field(default_factory=dict)
    bounds: dict[str, list[Bound]] = field(default_factory=dict)
    """By queue, of the streams that have jobs. A queue without any is not there."""
    _drawn: dict[str, tuple[_Line, int, Waiting]] = field(default_factory=dict)
    _touched: list[_Line] = field(default_factory=list)

    def add(self, stream: Stream, priority: int, job: Waiting) -> None:
        """A job arrives."""
        line = self.lines.get(stream)
        if line is None:
            line = self.lines[stream] = _Line(stream)
        if not line.count:
            insort(self.bounds.setdefault(stream.queue, []), stream[1:])
        line.add(priority, job)
        self.count += 1

    def queues(self, served: Mapping[str, int]) -> list[str]:
        """The queues that a worker takes from: those it names, and with ``*`` all that have jobs."""
        if EVERY_QUEUE not in served:
            return list(served)
        return sorted(self.bounds.keys() | (served.keys() - {EVERY_QUEUE}))

    def scan(self, probes: Sequence[Probe]) -> dict[str, list[Bound]]:
        """Streams that have jobs, as the walk asks for them."""
        answers = {}
        for queue, start, limit in probes:
            bounds = self.bounds.get(queue)
            if bounds:
                first = bisect_left(bounds, start)
                answers[queue] = bounds[first : first + limit]
        return answers

    def draw(self, stream: Stream, count: int) -> list[Candidate]:
        """The first jobs of a stream."""
        line = self.lines[stream]
        self._touched.append(line)
        group, found = stream.group, []
        for priority, job in line.pop(count):
            candidate = Candidate(
                (-priority, job.at_ms, f"{job.number:09}"), group, stream.rate_class, job.weight, 0, ""
            )
            self._drawn[candidate.rank[2]] = (line, priority, job)
            found.append(candidate)
        return found

    def take(self, candidate: Candidate) -> Waiting:
        """A drawn job leaves: it runs, or was refused."""
        self.count -= 1
        return self._drawn.pop(candidate.rank[2])[2]

    def put_back(self) -> None:
        """What was drawn and not taken stands where it stood."""
        for line, priority, job in reversed(self._drawn.values()):
            line.put_back(priority, job)
        self._drawn.clear()
        for line in self._touched:
            if not line.count:
                self._forget(line.stream)
        self._touched.clear()

    def _forget(self, stream: Stream) -> None:
        bounds = self.bounds.get(stream.queue, [])
        place = bisect_left(bounds, stream[1:])
        if place < len(bounds) and bounds[place] == stream[1:]:
            del bounds[place]
            if not bounds:
                del self.bounds[stream.queue]

    def waiting(self, queue: str) -> list[tuple[Stream, int]]:
        """The streams of a queue that have jobs, and how many."""
        return [
            (stream, self.lines[stream].count)
            for stream in (Stream(queue, *bound) for bound in self.bounds.get(queue, ()))
        ]
