"""The codec carries exactly what it was given."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate_django.core.codec import decode, encode

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)  # every str but lone surrogates
zones = st.one_of(
    st.just(UTC),
    st.timezones(),
    st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone),
)
instants = st.builds(
    lambda value, zone, fold: value.replace(tzinfo=zone, fold=fold), st.datetimes(), zones, st.sampled_from([0, 1])
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.binary(max_size=30),
    instants,
    st.dates(),
    st.times().flatmap(lambda value: st.sampled_from([value, value.replace(fold=1)])),
    st.timedeltas(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.uuids(),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)


def carried(value: Any) -> Any:
    return decode(encode({"value": value}))["value"]


def identity(value: Any) -> Any:
    """The value with everything that ``==`` overlooks: types, folds, zones, signs, exponents, order."""
    if isinstance(value, dict):
        return [(key, identity(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [identity(item) for item in value]
    if isinstance(value, datetime):
        zone = value.tzinfo.key if isinstance(value.tzinfo, ZoneInfo) else None
        return datetime, value.isoformat(), value.fold, zone
    if isinstance(value, time):
        return time, value.isoformat(), value.fold
    if isinstance(value, Decimal):
        return Decimal, value.as_tuple()
    if isinstance(value, float):
        return float, value, math.copysign(1, value)
    return type(value), value


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(texts, values, max_size=4))
def test_every_supported_value_comes_back_exactly(arguments):
    assert identity(decode(encode(arguments))) == identity(arguments)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(texts, values, max_size=4))
def test_the_same_arguments_are_always_the_same_bytes(arguments):
    payload = encode(arguments)

    assert encode(decode(payload)) == payload


@pytest.mark.parametrize(
    "value",
    [
        2**64 - 1,
        -(2**63),
        -0.0,
        5e-324,
        1.7976931348623157e308,
        "",
        "nul\0inside",
        "\U0001f600\U0010ffff",
        b"\0\xff",
        Decimal("0.10"),
        Decimal("-0"),
        Decimal("1E+400"),
        Decimal("1." + "0123456789" * 20),
        UUID(int=0),
        date.min,
        date.max,
        time(2, 30, fold=1),
        timedelta.min,
        timedelta.max,
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=45, seconds=1, microseconds=7))),
        datetime(1850, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam")),  # an offset with seconds
        [],
        {},
        {"a": [{"b": [None, True, False]}]},
    ],
    ids=repr,
)
def test_values_at_the_edge_come_back_exactly(value):
    assert identity(carried(value)) == identity(value)


@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize(
    ("zone", "local"),
    [
        ("Europe/Berlin", "2025-10-26T02:30"),  # the hour that happens twice
        ("America/New_York", "2025-11-02T01:30"),
        ("Europe/Berlin", "2025-03-30T02:30"),  # the hour that does not happen
        ("Australia/Lord_Howe", "2025-04-06T01:45"),  # half an hour happens twice
    ],
)
def test_a_datetime_around_a_clock_change_keeps_its_zone_and_its_side(zone, local, fold):
    value = datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(zone), fold=fold)

    back = carried(value)

    assert (back.tzinfo, back.fold, back.utcoffset()) == (value.tzinfo, fold, value.utcoffset())
    assert back.astimezone(UTC) == value.astimezone(UTC)


def test_a_carried_datetime_follows_its_zone_and_not_the_offset_of_the_day():
    back = carried(datetime(2026, 1, 15, 6, tzinfo=ZoneInfo("Europe/Berlin")))

    assert (back + timedelta(days=180)).utcoffset() == timedelta(hours=2)


def test_a_tuple_becomes_a_list():
    assert carried((1, (2, [3]))) == [1, [2, [3]]]


def test_the_order_of_arguments_and_keys_is_kept():
    arguments = {"b": {"z": 1, "a": 2}, "a": 1}

    back = decode(encode(arguments))

    assert (list(back), list(back["b"])) == (["b", "a"], ["z", "a"])


def test_bool_and_int_stay_apart():
    assert [type(item) for item in carried([True, 1, False, 0])] == [bool, int, bool, int]


def test_the_caller_may_change_its_arguments_afterwards():
    items = [1]
    payload = encode({"items": items})
    items.append(2)

    assert decode(payload) == {"items": [1]}


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=60))
def test_garbage_is_refused_as_a_value_error_or_is_a_map_with_str_names(garbage):
    try:
        arguments = decode(garbage)
    except ValueError:
        return
    assert all(type(name) is str for name in arguments)


@settings(max_examples=300, deadline=None)
@given(arguments=st.dictionaries(texts, values, min_size=1, max_size=3), data=st.data())
def test_a_damaged_payload_never_raises_anything_but_value_error(arguments, data):
    payload = bytearray(encode(arguments))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(payload)))

    for damaged in (bytes(payload), bytes(payload[:cut]), bytes(payload) + b"\0"):
        try:
            decode(damaged)
        except ValueError:
            continue


@settings(max_examples=200, deadline=None)
@given(code=st.integers(-128, 127), body=st.one_of(st.binary(max_size=20), values.map(lambda v: encode({"v": v}))))
def test_a_foreign_extension_is_refused_as_a_value_error(code, body):
    payload = msgpack.packb({"value": msgpack.ExtType(code, body)} if code >= 0 else {"value": body})

    try:
        decode(payload)
    except ValueError:
        return


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x90",  # a list, not a map
        b"\xc0",
        b"\x81\x01\x02",  # an int as key
        b"\x81\xc4\x01a\x02",  # bytes as key
        b"\x81\xa1a",  # cut short
        b"\x80\x80",  # one too many
        b"\xdf\xff\xff\xff\xff",  # a map that claims four billion entries
        b"\x81\xa1a" + b"\x91" * 5_000,  # nested beyond any stack
        b"\x81\xa1a\xa1\xff",  # no UTF-8
        msgpack.packb({"a": msgpack.ExtType(1, msgpack.packb(["2026-01-01T00:00:00", "Mars/Olympus", 0]))}),
        msgpack.packb({"a": msgpack.ExtType(1, msgpack.packb(["2026-01-01T00:00:00", "../../etc/passwd", 0]))}),
        msgpack.packb({"a": msgpack.ExtType(1, msgpack.packb(["2026-01-01T00:00:00", "A" * 5_000, 0]))}),
        msgpack.packb({"a": msgpack.ExtType(4, msgpack.packb([10**18, 0, 0]))}),
        msgpack.packb({"a": msgpack.ExtType(5, msgpack.packb("a lot"))}),
        msgpack.packb({"a": msgpack.ExtType(6, msgpack.packb(b"short"))}),
        msgpack.packb({"a": msgpack.ExtType(99, b"")}),
    ],
)
def test_bytes_that_are_no_payload_are_refused(payload):
    with pytest.raises(ValueError):
        decode(payload)


def test_an_offset_below_a_second_is_carried():
    odd = datetime(2000, 1, 1, tzinfo=timezone(timedelta(microseconds=1)))

    back = decode(encode({"at": odd}))["at"]

    assert (back, back.utcoffset()) == (odd, odd.utcoffset())
