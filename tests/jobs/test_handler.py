"""Enqueueing through a handler: arguments are checked at the call, against the function's own signature."""

from __future__ import annotations

import enum
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import translation
from django.utils.functional import lazystr
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy

from headgate_django import aenqueue_many, enqueue_many, job
from headgate_django.core import codec
from headgate_django.core.states import State
from headgate_django.exceptions import ConfigurationError, InvalidJob, Unserializable
from headgate_django.models import Job, Payload


@pytest.fixture
def order() -> Any:
    @job("shop:order")
    def order(number: int, lines: list | None = None, *, urgent: bool = False, context: Any = None) -> None: ...

    return order


def arguments(envelope: Any) -> dict[str, Any]:
    return codec.decode(envelope.payload)


def test_arguments_are_stored_by_name_in_the_order_of_the_signature(order):
    payload = arguments(order.envelope(urgent=True, lines=[1], number=7))

    assert list(payload.items()) == [("number", 7), ("lines", [1]), ("urgent", True)]


def test_the_way_of_passing_arguments_makes_no_difference(order):
    assert order.envelope(7, [1]).fingerprint == order.envelope(number=7, lines=[1]).fingerprint


def test_a_default_is_left_to_the_code_that_runs(order):
    assert arguments(order.envelope(7)) == {"number": 7}


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((), {}, "missing a required argument: 'number'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"number": 2}, "multiple values for argument 'number'"),
        ((1,), {"urgnt": True}, "unexpected keyword argument 'urgnt'"),
        ((1,), {"context": None}, "unexpected keyword argument 'context'"),
    ],
)
@pytest.mark.django_db
def test_arguments_that_do_not_fit_are_a_type_error_at_the_call(order, args, kwargs, problem):
    for call in (order.envelope, order.enqueue, async_to_sync(order.aenqueue)):
        with pytest.raises(TypeError, match=f"shop:order: .*{problem}"):
            call(*args, **kwargs)

    assert not Job.objects.exists()


def test_free_keyword_arguments_are_stored_beside_the_others():
    @job("shop:free")
    def free(number: int, **extra: Any) -> None: ...

    assert arguments(free.envelope(1, colour="red", kwargs=2, extra=3)) == {
        "number": 1,
        "colour": "red",
        "kwargs": 2,
        "extra": 3,
    }


def test_the_context_is_the_workers_even_beside_free_keyword_arguments():
    @job("shop:free")
    def free(context: Any, **extra: Any) -> None: ...

    with pytest.raises(TypeError, match="shop:free: 'context' is given by the worker"):
        free.envelope(context=1)


def test_the_context_may_stand_anywhere_in_the_signature():
    @job("shop:middle")
    def middle(first: int, context: Any, second: int) -> None: ...

    assert arguments(middle.envelope(1, 2)) == {"first": 1, "second": 2}
    assert middle.takes_context


@pytest.mark.django_db
def test_an_argument_that_cannot_be_carried_is_refused_with_kind_path_and_type(order):
    user = get_user_model()(username="ada")
    with transaction.atomic():
        for value, problem in (
            ({"buyer": user}, r"lines\.buyer: is a model instance \(User\); pass its primary key"),
            ([1, {2}], r"lines\[1\]: is of type set"),
            (datetime.fromisoformat("2026-01-01"), "lines: is a naive datetime"),
            (get_user_model().objects.all(), "lines: is of type UserManager|lines: is of type QuerySet"),
        ):
            with pytest.raises(Unserializable, match=f"shop:order: {problem}"):
                order.enqueue(1, lines=value)
        order.enqueue(1)

    assert Job.objects.count() == Payload.objects.count() == 1


def test_a_lazy_string_is_resolved_in_the_language_of_the_caller(order):
    with translation.override("de"):
        envelope = order.envelope(1, lines=[gettext_lazy("Yes"), lazystr("plain")])

    assert arguments(envelope)["lines"] == ["Ja", "plain"]


def test_a_safe_string_is_carried_as_the_text_it_is(order):
    [text] = arguments(order.envelope(1, lines=[mark_safe("<b>bold</b>")]))["lines"]

    assert (type(text), text) == (str, "<b>bold</b>")


@pytest.mark.django_db
def test_an_enqueued_job_is_stored_with_its_arguments(now, order):
    stored = order.enqueue(7, urgent=True)

    assert (stored.kind, stored.state, stored.schema_version) == ("shop:order", State.AVAILABLE, 1)
    assert codec.decode(bytes(stored.payload.data)) == {"number": 7, "urgent": True}


def test_using_makes_a_copy_and_leaves_the_original(order):
    fast = order.using(queue="fast", priority=9)
    faster = fast.using(priority=10)

    assert [handler.envelope(1).queue for handler in (order, fast, faster)] == ["default", "fast", "fast"]
    assert [handler.envelope(1).priority for handler in (order, fast, faster)] == [0, 9, 10]
    assert fast(1) is None
    assert (fast.kind, fast.function) == (order.kind, order.function)


@pytest.mark.parametrize("tags", ["urgent", {"a": 1}, None, 5])
def test_tags_are_a_list_and_not_a_text(order, tags):
    with pytest.raises(InvalidJob, match="tags: must be a list of str"):
        order.using(tags=tags)


def test_using_refuses_an_unknown_option_with_a_suggestion(order):
    with pytest.raises(ConfigurationError, match="'prioritty' is not a job option; did you mean 'priority'"):
        order.using(prioritty=1)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"queue": "nul\0"}, "queue"),
        ({"id": "\ud800"}, "id"),
        ({"delay": 0.0001}, "delay"),
        ({"delay": 1, "at": datetime(2026, 1, 1, tzinfo=UTC)}, "delay"),
        ({"at": datetime.fromisoformat("2026-01-01")}, "at"),
        ({"at": datetime(1970, 1, 1, tzinfo=UTC)}, "at"),
        ({"deadline": datetime.fromisoformat("2026-01-01")}, "deadline"),
        ({"deadline": datetime(1970, 1, 1, tzinfo=UTC)}, "deadline"),
        ({"deadline": "tomorrow"}, "deadline"),
        ({"headers": {"a": 1}}, "headers"),
        ({"headers": None}, "headers"),
        ({"tags": ["a", "a"]}, "tags"),
        ({"pending": True, "delay": 1}, "pending"),
    ],
)
@pytest.mark.django_db
def test_a_bad_value_of_one_job_is_refused_with_kind_and_field(order, options, field):
    with pytest.raises(InvalidJob, match=r"^shop:order: ") as caught:
        order.using(**options).enqueue(1)

    assert caught.value.field == field
    assert not Job.objects.exists()


@pytest.mark.django_db
def test_options_of_one_job_reach_its_row(now, order):
    due = datetime(2027, 5, 1, 12, tzinfo=UTC)
    stored = order.using(
        id="mine", at=due, deadline=due + timedelta(hours=1), tags={"a"}, headers={"trace": "x"}, timeout=2
    ).enqueue(1)

    stored.refresh_from_db()
    assert (stored.pk, stored.state, stored.scheduled_at) == ("mine", State.SCHEDULED, due)
    assert (stored.deadline, stored.tags, stored.timeout_ms) == (due + timedelta(hours=1), ["a"], 2_000)
    assert stored.payload.headers == {"trace": "x"}


def test_headers_are_taken_as_they_are_at_the_call(order):
    headers = {"trace": "x"}
    handler = order.using(headers=headers)
    headers["trace"] = "y"

    assert handler.envelope(1).headers == {"trace": "x"}


@pytest.mark.django_db
def test_an_enumeration_names_a_queue_by_its_value(now, order):
    class Queue(enum.StrEnum):
        FAST = "fast"

    order.using(queue=Queue.FAST).enqueue(1)

    assert Job.objects.get().queue == "fast"


@pytest.mark.django_db
def test_many_jobs_are_stored_at_once(order):
    jobs = enqueue_many([order.envelope(number) for number in range(20)])

    assert [codec.decode(bytes(found.payload.data))["number"] for found in jobs] == list(range(20))


@pytest.mark.django_db
def test_async_code_enqueues_in_the_transaction_of_its_caller(order):
    with transaction.atomic():
        one = async_to_sync(order.aenqueue)(1)
        many = async_to_sync(aenqueue_many)([order.envelope(2), order.envelope(3)])
        transaction.set_rollback(True)

    assert (one.kind, len(many)) == ("shop:order", 2)
    assert not Job.objects.exists()


def test_an_async_function_is_a_handler_too():
    @job("shop:async")
    async def later(number: int) -> int:
        return number

    assert later.is_async
    assert async_to_sync(later)(3) == 3
    assert arguments(later.envelope(3)) == {"number": 3}
