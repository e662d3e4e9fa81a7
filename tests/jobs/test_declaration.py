"""``@job``: what may be declared, and what is refused at import, with the place to look at."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any

import pytest

from headgate_django import job
from headgate_django.exceptions import ConfigurationError, DuplicateKind, InvalidJob
from headgate_django.jobs import registry
from headgate_django.jobs.handler import Handler


def plain(value: int = 1) -> int:
    """Doubles."""
    return value * 2


def test_every_form_of_the_decorator_declares_a_handler():
    bare, called, named = job(plain), job()(plain), job("forms:named", queue="mail")(plain)

    assert [type(handler) for handler in (bare, called, named)] == [Handler] * 3
    assert [handler.kind for handler in (bare, called, named)] == [
        "tests.jobs.test_declaration:plain",
        "tests.jobs.test_declaration:plain",
        "forms:named",
    ]
    assert named.options.queue == "mail"


def test_a_handler_is_still_the_function():
    handler = job("forms:function")(plain)

    assert handler(21) == handler(value=21) == 42
    assert (handler.__name__, handler.__doc__, handler.__wrapped__) == ("plain", "Doubles.", plain)


def test_the_default_kind_of_a_nested_function_fits_the_grammar():
    @job
    def nested() -> None: ...

    assert nested.kind.endswith("test_the_default_kind_of_a_nested_function_fits_the_grammar.<locals>.nested")


@pytest.mark.parametrize("kind", ["", "-x", "a b", "é", "x" * 129, "a\0", "a\n"])
@pytest.mark.parametrize("where", ["kind", "alias"])
def test_a_bad_kind_is_refused_at_the_declaration(kind, where):
    declare = job(kind) if where == "kind" else job("forms:good", aliases=[kind])

    with pytest.raises(InvalidJob, match="kind: invalid kind"):
        declare(plain)

    assert registry.find("forms:good") is None


@pytest.mark.parametrize("kind", [5, b"bytes", ["list"], 1.5])
def test_a_kind_of_another_type_is_refused(kind):
    with pytest.raises(ConfigurationError, match="@job takes the kind as a str"):
        job(kind)


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("qeue", "did you mean 'queue'"),
        ("max_attempt", "did you mean 'max_attempts'"),
        ("retries", "'retries' is not an option of @job"),
        ("alias", "did you mean 'aliases'"),
        ("schema", "is not an option of @job"),
        ("name", "is not an option of @job"),
        ("xyzzy", "known are: .*backoff.*queue"),
        ("kind", "is not an option of @job"),
    ],
)
def test_an_unknown_option_is_refused_with_a_suggestion(option, hint):
    with pytest.raises(ConfigurationError, match=hint):
        job("forms:bad", **{option: 1})


@pytest.mark.parametrize("option", ["id", "at", "headers"])
def test_what_belongs_to_one_job_is_no_option_of_the_declaration(option):
    with pytest.raises(ConfigurationError, match=rf"'{option}' belongs to one job: give it to using\(\)"):
        job("forms:bad", **{option: "x"})


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"queue": ""}, "queue"),
        ({"queue": 5}, "queue"),
        ({"partition_key": "nul\0"}, "partition_key"),
        ({"sticky_worker": "ü"}, "sticky_worker"),
        ({"priority": "high"}, "priority"),
        ({"weight": 0}, "weight"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"retention": -1}, "retention"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": "60"}, "timeout"),
        ({"deadline": timedelta(microseconds=1)}, "deadline"),
        ({"delay": -1}, "delay"),
        ({"delay": float("nan")}, "delay"),
        ({"pending": 1}, "pending"),
        ({"pending": True, "delay": 5}, "pending"),
        ({"tags": "urgent"}, "tags"),
        ({"tags": None}, "tags"),
        ({"tags": [5]}, "tags"),
        ({"schema_version": 0}, "schema_version"),
        ({"schema_version": "2"}, "schema_version"),
    ],
)
def test_a_bad_value_is_refused_at_the_declaration_and_names_its_option(options, field):
    with pytest.raises(InvalidJob) as caught:
        job("forms:bad", **options)(plain)

    assert caught.value.field == field
    assert registry.find("forms:bad") is None


def test_options_of_the_declaration_are_the_defaults_of_its_jobs():
    handler = job(
        "forms:full",
        queue="mail",
        partition_key="p",
        rate_class="smtp",
        priority=3,
        weight=2,
        max_attempts=7,
        retention=timedelta(hours=1),
        timeout=1.5,
        deadline=60,
        delay=2,
        tags=["b", "a"],
    )(plain)

    envelope = handler.envelope(1)

    assert (envelope.queue, envelope.partition_key, envelope.rate_class) == ("mail", "p", "smtp")
    assert (envelope.priority, envelope.weight, envelope.max_attempts) == (3, 2, 7)
    assert (envelope.retention_ms, envelope.timeout_ms) == (3_600_000, 1_500)
    assert (envelope.deadline_in_ms, envelope.delay_ms, envelope.tags) == (60_000, 2_000, ("b", "a"))


def test_settings_are_the_defaults_of_what_is_not_declared(settings):
    handler = job("forms:default")(plain)
    settings.HEADGATE = {"MAX_ATTEMPTS": 3, "RETENTION": timedelta(days=1)}

    envelope = handler.envelope()

    assert (envelope.max_attempts, envelope.retention_ms) == (3, 86_400_000)
    assert job("forms:zero", retention=0)(plain).envelope().retention_ms == 0


@pytest.mark.parametrize("bad", ["ValueError", [int], ValueError("x"), [ValueError, None], 5])
@pytest.mark.parametrize("name", ["retry_on", "skip_on"])
def test_only_exception_classes_choose_outcomes(name, bad):
    with pytest.raises((ConfigurationError, TypeError)):
        job("forms:bad", **{name: bad})(plain)


def test_exception_classes_are_given_alone_or_in_a_sequence():
    handler = job("forms:errors", retry_on=OSError, skip_on=[ValueError, KeyError])(plain)

    assert (handler.retry_on, handler.skip_on) == ((OSError,), (ValueError, KeyError))


def test_two_handlers_of_one_kind_are_refused_with_both_places():
    job("forms:taken")(plain)

    with pytest.raises(DuplicateKind) as caught:

        @job("forms:taken")
        def another() -> None: ...

    message = str(caught.value)
    assert "kind 'forms:taken' is declared twice" in message
    assert message.count("test_declaration.py:") == 2
    assert "plain" in message
    assert "another" in message
    assert registry.find("forms:taken").function is plain


def test_a_clash_of_an_alias_registers_nothing():
    job("forms:taken")(plain)

    with pytest.raises(DuplicateKind):

        @job("forms:new", aliases=["forms:free", "forms:taken"])
        def another() -> None: ...

    assert registry.find("forms:new") is registry.find("forms:free") is None


def test_a_module_that_is_imported_again_replaces_its_handlers():
    first = job("forms:again")(plain)

    second = job("forms:again")(plain)

    assert first is not second
    assert registry.find("forms:again") is second


def test_former_kinds_find_the_handler():
    handler = job("forms:renamed", aliases=["forms:old", "forms:older"])(plain)

    assert registry.find("forms:old") is registry.find("forms:older") is registry.find("forms:renamed") is handler
    assert handler.envelope().kind == "forms:renamed"
    assert {"forms:old", "forms:older", "forms:renamed"} <= set(registry.kinds())


def test_a_single_alias_is_a_name_and_not_its_letters():
    job("forms:renamed", aliases="forms:old")(plain)

    assert registry.find("forms:old") is not None
    assert registry.find("f") is None


def positional_only(value: int, /) -> None: ...


def star(*values: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "problem"),
    [(positional_only, "parameter 'value' is positional-only"), (star, r"\*values cannot be called by name")],
)
def test_a_signature_that_cannot_be_called_by_name_is_refused(function, problem):
    with pytest.raises(ConfigurationError, match=f"forms:bad: {problem}"):
        job("forms:bad")(function)


def generator() -> Any:
    yield 1


async def async_generator() -> Any:
    yield 1


@pytest.mark.parametrize("function", [generator, async_generator])
def test_a_generator_is_refused_because_its_body_would_never_run(function):
    with pytest.raises(ConfigurationError, match="forms:bad: a generator function would never run"):
        job("forms:bad")(function)


def test_a_wrapped_function_is_named_by_where_it_was_written():
    @functools.wraps(plain)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    handler = job("forms:wrapped")(wrapper)

    assert handler.place.startswith("tests.jobs.test_declaration.plain (")
    assert repr(handler) == f"<Handler forms:wrapped {handler.place}>"
