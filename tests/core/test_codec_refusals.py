"""The codec refuses what it cannot carry exactly, with the path of the value and its type."""

from __future__ import annotations

import enum
import io
import math
from collections import OrderedDict, defaultdict, namedtuple
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import pytest

from headgate_django.core.codec import MAX_DEPTH, decode, encode
from headgate_django.core.envelope import MAX_PAYLOAD_BYTES
from headgate_django.exceptions import EnqueueError, PayloadTooLarge, Unserializable


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 1


class Name(str):
    __slots__ = ()


class Share(float):
    """Like a float of a numeric library."""


class FakeModel:
    """As much of a model instance as the core can know."""

    _meta = "options"
    pk = 7


Point = namedtuple("Point", "x y")

REFUSED: list[tuple[Any, str]] = [
    (datetime.fromisoformat("2026-01-01"), "is a naive datetime"),
    (time(12, tzinfo=UTC), "is a time with a time zone"),
    (math.nan, "is nan; only finite floats"),
    (math.inf, "is inf; only finite floats"),
    (-math.inf, "is -inf; only finite floats"),
    (float("1e400"), "is inf"),
    (Decimal("NaN"), "only finite decimals"),
    (Decimal("sNaN"), "only finite decimals"),
    (Decimal("-Infinity"), "only finite decimals"),
    (2**64, "is an integer of 65 bits"),
    (2**70, "is an integer of 71 bits"),
    (-(2**63) - 1, "is an integer of 64 bits"),
    ({1: "a"}, "has a key of type int; keys must be str"),
    ({None: "a"}, "has a key of type NoneType"),
    ({Name("a"): 1}, "has a key of type Name"),
    ({b"a": 1}, "has a key of type bytes"),
    ({1, 2}, "is of type set"),
    (frozenset(), "is of type frozenset"),
    (lambda: None, "is of type function"),
    (iter([]), "is of type list_iterator"),
    (io.StringIO(), "is of type StringIO"),
    (bytearray(b"a"), "is of type bytearray"),
    (memoryview(b"a"), "is of type memoryview"),
    (1j, "is of type complex"),
    (PurePosixPath("/tmp"), "is of type PurePosixPath"),
    (object(), "is of type object"),
    (Exception("x"), "is of type Exception"),
    (FakeModel(), r"is a model instance \(FakeModel\); pass its primary key"),
    (Colour.RED, r"is an enum member \(Colour\); pass its .value"),
    (Level.HIGH, r"is an enum member \(Level\); pass its .value"),
    (Name("a"), "is a Name, a subclass of str; pass a plain str"),
    (Share(0.5), "is a Share, a subclass of float; pass a plain float"),
    (Point(1, 2), "is a Point, a subclass of tuple; pass a plain tuple"),
    (OrderedDict(), "is a OrderedDict, a subclass of dict; pass a plain dict"),
    (defaultdict(list), "is a defaultdict, a subclass of dict"),
    ("\ud800", "contains a lone surrogate"),
    ({"\udfff": 1}, "contains a lone surrogate"),
]


@pytest.mark.parametrize(("value", "problem"), REFUSED, ids=lambda value: ascii(value)[:40])
def test_a_value_that_cannot_be_carried_is_refused_with_its_argument(value, problem):
    with pytest.raises(Unserializable, match=f"^order: .*{problem}") as caught:
        encode({"user_id": 1, "order": value})

    assert caught.value.field == "order"


@pytest.mark.parametrize("value", [value for value, _ in REFUSED], ids=lambda value: ascii(value)[:40])
def test_the_path_leads_to_the_nested_value(value):
    with pytest.raises(Unserializable) as caught:
        encode({"order": {"items": (1, [2, {"price": value}])}})

    assert caught.value.field == "order.items[1][1].price"


def test_a_refusal_is_an_enqueue_error_a_type_error_and_a_value_error():
    for expected in (EnqueueError, TypeError, ValueError):
        with pytest.raises(expected):
            encode({"value": {1}})


@pytest.mark.parametrize("loop", ["list", "dict", "both"])
def test_a_value_that_contains_itself_is_refused(loop):
    items: list[Any] = []
    mapping: dict[str, Any] = {"items": items}
    items.append({"list": items, "dict": mapping, "both": mapping}[loop])
    if loop == "dict":
        mapping["self"] = mapping

    with pytest.raises(Unserializable, match=f"nested deeper than {MAX_DEPTH} levels"):
        encode({"value": mapping if loop == "dict" else items})


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_is_carried_up_to_its_limit_and_no_further():
    assert decode(encode({"value": nested(MAX_DEPTH)})) == {"value": nested(MAX_DEPTH)}
    with pytest.raises(Unserializable, match="nested deeper"):
        encode({"value": nested(MAX_DEPTH + 1)})


@pytest.mark.parametrize("name", ["\ud800", Name("value")], ids=["surrogate", "subclass"])
def test_a_name_that_cannot_be_carried_is_refused(name):
    with pytest.raises(Unserializable):
        encode({name: 1})


def test_a_payload_fits_up_to_a_mebibyte():
    overhead = len(encode({"value": b"x" * 70_000})) - 70_000

    assert len(encode({"value": b"x" * (MAX_PAYLOAD_BYTES - overhead)})) == MAX_PAYLOAD_BYTES
    with pytest.raises(PayloadTooLarge, match=f"is {MAX_PAYLOAD_BYTES + 1} bytes, the limit is"):
        encode({"value": b"x" * (MAX_PAYLOAD_BYTES - overhead + 1)})


def test_a_refusal_never_quotes_the_value():
    for secret in ("hunter2\ud800", Name("hunter2"), {"hunter2"}):
        with pytest.raises(Unserializable) as caught:
            encode({"password": secret})
        assert "hunter2" not in str(caught.value)


def test_nothing_is_evaluated_on_the_way():
    class Hostile:
        def __str__(self) -> str:
            raise AssertionError("evaluated")

        __repr__ = __eq__ = __hash__ = __len__ = __iter__ = __str__  # type: ignore[assignment]

    with pytest.raises(Unserializable, match="is of type Hostile"):
        encode({"value": [Hostile()]})
