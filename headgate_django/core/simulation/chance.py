"""Synthetic jobs: when they arrive, how long they run, what they weigh."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp
from random import Random
from typing import Protocol


class Distribution(Protocol):
    """A source of numbers."""

    def sample(self, rng: Random) -> float:
        """The next one."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same."""

    value: float

    def sample(self, rng: Random) -> float:
        return self.value


@dataclass(frozen=True, slots=True)
class Uniform:
    """Anything between two bounds."""

    low: float
    high: float

    def sample(self, rng: Random) -> float:
        return self.low + (self.high - self.low) * rng.random()


@dataclass(frozen=True, slots=True)
class Exponential:
    """Mostly short, sometimes several times the mean."""

    mean: float

    def sample(self, rng: Random) -> float:
        return rng.expovariate(1 / self.mean)


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Half below the median; the larger ``sigma``, the longer the tail."""

    median: float
    sigma: float

    def sample(self, rng: Random) -> float:
        return self.median * exp(rng.normalvariate(0, self.sigma))


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few values, by their odds."""

    values: tuple[float, ...]
    odds: tuple[float, ...]

    def sample(self, rng: Random) -> float:
        return rng.choices(self.values, self.odds)[0]


Arrival = tuple[int, int]
"""An instant in milliseconds, and the number of a tenant."""


class Process(Protocol):
    """When the jobs of a class of tenants arrive."""

    def arrivals(self, tenants: int, rng: Random) -> Iterator[Arrival]:
        """In order."""


@dataclass(frozen=True, slots=True)
class Burst:
    """``jobs`` of each tenant at once, ``times`` times."""

    jobs: int
    at_ms: int
    every_ms: int
    times: int

    def arrivals(self, tenants: int, rng: Random) -> Iterator[Arrival]:
        for time in range(self.times):
            for _ in range(self.jobs):
                for tenant in range(tenants):
                    yield self.at_ms + time * self.every_ms, tenant


@dataclass(frozen=True, slots=True)
class Poisson:
    """Each tenant at random moments, ``rate`` jobs a second on average."""

    rate: float
    start_ms: int
    stop_ms: int

    def arrivals(self, tenants: int, rng: Random) -> Iterator[Arrival]:
        per_ms = self.rate * tenants / 1000
        at = self.start_ms + rng.expovariate(per_ms)
        while at < self.stop_ms:
            yield int(at), int(rng.random() * tenants)
            at += rng.expovariate(per_ms)


@dataclass(frozen=True, slots=True)
class Steady:
    """Each tenant at even distances, ``rate`` jobs a second; the tenants one after the other."""

    rate: float
    start_ms: int
    stop_ms: int

    def arrivals(self, tenants: int, rng: Random) -> Iterator[Arrival]:
        number, per_ms = 0, self.rate * tenants / 1000
        while (at := self.start_ms + number / per_ms) < self.stop_ms:
            yield int(at), number % tenants
            number += 1
