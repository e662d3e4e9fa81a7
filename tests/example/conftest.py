"""A shop with one order, and a way to run what is enqueued."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from example_project.shop.models import Order
from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.jobs.context import Context
from headgate_django.lifecycle.ack import ack
from headgate_django.models import Job
from headgate_django.worker import runner

Work = Callable[[Job], Job]


@pytest.fixture
def place_order(db: None) -> Callable[..., Order]:
    """An order: ``place_order(card="flaky")``."""

    def call(number: str = "T-1", **fields: str) -> Order:
        return Order.objects.create(number=number, shop="books", email="ada@example.com", amount=10, **fields)

    return call


@pytest.fixture
def work(admit: Callable[..., list[Claim]]) -> Work:
    """Admit everything that may run now, run and ack it; the given job afterwards."""

    def call(job: Job) -> Job:
        for claim in admit(100):
            assert not ack([(claim, _run(claim))])
        job.refresh_from_db()
        return job

    return call


def _run(claim: Claim) -> Outcome:
    context = Context(claim)
    return asyncio.run(runner.arun(claim, context)) if runner.is_async(claim) else runner.run(claim, context)
