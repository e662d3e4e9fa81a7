"""How a handler is executed: isolated, bounded, atomic; a property of the handler, not of one job."""

from __future__ import annotations

import pytest

from headgate_django import job
from headgate_django.exceptions import ConfigurationError
from headgate_django.jobs import registry

MEBIBYTE = 1024**2


def plain() -> None:
    """Does nothing."""


async def asynchronous() -> None:
    """Does nothing either."""


def test_by_default_a_handler_shares_its_process_and_has_no_transaction():
    handler = job("execution:plain")(plain)

    assert (handler.isolated, handler.memory_limit, handler.atomic) == (False, 0, False)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(0, 0), (32 * MEBIBYTE, 32 * MEBIBYTE), ("32MB", 32 * MEBIBYTE), ("256 MB", 256 * MEBIBYTE), ("1g", 1024**3)],
)
def test_a_memory_limit_is_bytes_or_a_size(limit, expected):
    handler = job("execution:isolated", isolated=True, memory_limit=limit)(plain)

    assert (handler.isolated, handler.memory_limit) == (True, expected)


@pytest.mark.parametrize("limit", [1, 32 * MEBIBYTE - 1, -1, "31MB", "lots", "1 XB", None, True, b"1GB"])
def test_any_other_memory_limit_is_refused(limit):
    with pytest.raises(ConfigurationError, match="memory_limit must be"):
        job("execution:bad", isolated=True, memory_limit=limit)

    assert registry.find("execution:bad") is None


def test_a_memory_limit_needs_a_process_to_limit():
    with pytest.raises(ConfigurationError, match="memory_limit needs isolated=True"):
        job("execution:bad", memory_limit="256MB")


@pytest.mark.parametrize("name", ["isolated", "atomic"])
@pytest.mark.parametrize("value", [1, "yes", None])
def test_a_switch_is_true_or_false(name, value):
    with pytest.raises(ConfigurationError, match=f"{name} must be True or False"):
        job("execution:bad", **{name: value})


def test_an_atomic_handler_is_synchronous_and_the_error_says_why():
    with pytest.raises(ConfigurationError, match="Django's transactions do not work in async code"):
        job("execution:bad", atomic=True)(asynchronous)

    assert job("execution:async", isolated=True)(asynchronous).isolated


@pytest.mark.parametrize("name", ["isolated", "memory_limit", "atomic", "backoff", "retry_on", "schema_version"])
def test_what_belongs_to_the_handler_is_refused_for_one_job(name):
    handler = job("execution:using")(plain)

    with pytest.raises(
        ConfigurationError, match=f"'{name}' belongs to the handler: give it to @job, not to using"
    ):
        handler.using(**{name: True})


@pytest.mark.parametrize(
    ("name", "hint"), [("isolate", "isolated"), ("memory", "memory_limit"), ("atomc", "atomic")]
)
def test_a_misspelt_one_is_refused_with_a_suggestion(name, hint):
    with pytest.raises(ConfigurationError, match=f"did you mean '{hint}'"):
        job("execution:bad", **{name: True})


def test_a_copy_with_other_options_is_executed_alike():
    handler = job("execution:copy", isolated=True, memory_limit="64MB", atomic=True)(plain)

    copy = handler.using(queue="other")

    assert (copy.isolated, copy.memory_limit, copy.atomic) == (True, 64 * MEBIBYTE, True)
