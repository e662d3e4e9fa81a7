"""Reveal: readable, bounded, recorded, and never an error because of what is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import msgpack
import pytest
from django.contrib.admin.models import LogEntry

from headgate_django.control.presentation import MAX_RAW, MAX_SHOWN, decoded, pretty
from headgate_django.control.reveal import reveal
from headgate_django.core import codec
from headgate_django.models import Job, Payload
from tests.control.people import user_with
from tests.support.builders import queued

pytestmark = pytest.mark.django_db


def test_arguments_and_headers_are_shown_as_they_were_given(now):
    arguments = {
        "order": 17,
        "price": Decimal("9.90"),
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "items": [{"sku": "A"}, {}],
        "short": [1, 2],
        "key": UUID(int=1),
    }
    job = queued(arguments=arguments, headers={"trace": "abc"})

    revealed = reveal(job.pk, actor=None)

    for text in ("'order': 17", "Decimal('9.90')", "datetime.datetime(2026, 1, 2", "'sku': 'A'", "[1, 2]", "{}"):
        assert text in revealed.arguments.shown
    assert "'trace': 'abc'" in revealed.headers.shown
    assert (revealed.arguments.cut, revealed.arguments.trouble) == (False, "")
    assert revealed.size == len(codec.encode(arguments))


def test_a_reveal_is_recorded_with_who(now):
    actor = user_with("reveal_payload")
    job = queued(arguments={"token": "hunter2"})

    reveal(job.pk, actor=actor)

    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_id) == (actor, job.pk)
    assert entry.change_message == "Revealed payload and headers."
    assert "hunter2" not in entry.object_repr + entry.change_message


def test_revealing_a_job_that_is_gone_records_nothing(now):
    with pytest.raises(Job.DoesNotExist):
        reveal("never was", actor=user_with("reveal_payload"))

    assert not LogEntry.objects.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x81",
        b"hello",
        b"\x91" * 2_000,
        b"\xff" * 5_000,
        msgpack.packb([1, 2]),
        msgpack.packb({"a": msgpack.ExtType(99, b"x")}),
        msgpack.packb({"a": msgpack.ExtType(1, msgpack.packb(["no date", None, 0]))}),
        msgpack.packb({"a": msgpack.ExtType(1, msgpack.packb(["2026-01-01T00:00:00", "../etc/passwd", 0]))}),
        msgpack.packb({"a": msgpack.ExtType(4, msgpack.packb([10**9, 10**9, 0]))}),
        msgpack.packb({"a": msgpack.ExtType(6, b"short")}),
    ],
)
def test_bytes_that_are_no_payload_are_shown_with_the_reason(data, now):
    job = queued()
    Payload.objects.filter(pk=job.pk).update(data=data)

    revealed = reveal(job.pk, actor=None)

    assert revealed.arguments.trouble
    assert revealed.arguments.shown == data[:MAX_RAW].hex(" ")
    assert revealed.arguments.cut == (len(data) > MAX_RAW)


def test_a_payload_that_is_not_there_is_said_so(now):
    job = queued()
    Payload.objects.filter(pk=job.pk).delete()

    assert reveal(job.pk, actor=None).arguments.trouble == "no payload is stored"


@pytest.mark.parametrize(
    "value",
    ["x" * 1_000_000, b"\0" * 300_000, list(range(500_000)), {str(n): n for n in range(100_000)}],
    ids=["text", "bytes", "list", "map"],
)
def test_a_large_value_is_cut(value):
    text = decoded(codec.encode({"value": value})) if not isinstance(value, list) else pretty(value)

    assert text.cut
    assert len(text.shown) == MAX_SHOWN


def test_a_deeply_nested_value_is_shown():
    nested: object = 1
    for _ in range(60):
        nested = [nested, {"a": 1}]

    assert not pretty(nested).cut


def test_direction_and_control_characters_are_escaped():
    shown = pretty({"name": "a\u202egpj.exe\x1b[0m\n"}).shown

    assert "\u202e" not in shown
    assert "\x1b" not in shown


def test_what_was_revealed_does_not_leak_through_repr(now):
    job = queued(arguments={"token": "hunter2"}, headers={"auth": "hunter2"})

    assert "hunter2" not in repr(reveal(job.pk, actor=None))


def test_timedelta_is_exact():
    assert "datetime.timedelta(seconds=1)" in pretty({"wait": timedelta(seconds=1)}).shown
