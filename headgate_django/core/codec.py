"""The exact codec: what comes out is what went in, or it is refused at the call with its path.

MessagePack, with extension types for what JSON users lose: aware datetimes, dates, times, timedeltas,
decimals and UUIDs. A tuple becomes a list; lazy translation strings are resolved; nothing else changes
type on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgpack

from headgate_django.core.envelope import MAX_PAYLOAD_BYTES
from headgate_django.exceptions import PayloadTooLarge, Unserializable

MAX_DEPTH = 64

_DATETIME, _DATE, _TIME, _TIMEDELTA, _DECIMAL, _UUID = 1, 2, 3, 4, 5, 6


def encode(arguments: Mapping[str, Any]) -> bytes:
    """The payload of a call: a MessagePack map of parameter name to value, in the given order.

    Raises Unserializable with the path of the first value that cannot be carried exactly, and
    PayloadTooLarge above ``MAX_PAYLOAD_BYTES``.
    """
    prepared = {_name(name): _prepare(value, name, 0) for name, value in arguments.items()}
    payload: bytes = msgpack.packb(prepared, use_bin_type=True, strict_types=True)
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise PayloadTooLarge(
            "payload",
            f"is {len(payload)} bytes, the limit is {MAX_PAYLOAD_BYTES}; store the data, pass its key",
        )
    return payload


def decode(payload: bytes) -> dict[str, Any]:
    """The arguments of a payload. Raises ValueError when the bytes are not a payload."""
    try:
        arguments = msgpack.unpackb(payload, raw=False, strict_map_key=True, ext_hook=_from_extension)
    except ValueError:
        raise
    except Exception as error:  # msgpack has half a dozen classes for "these bytes are wrong"
        raise ValueError(f"not a payload: {type(error).__name__}: {error}") from error
    if not isinstance(arguments, dict):
        raise ValueError(f"not a payload: a map was expected, not {type(arguments).__name__}")
    if not all(isinstance(name, str) for name in arguments):
        raise ValueError("not a payload: the names of arguments must be str")
    return arguments


def _name(name: str) -> str:
    # Names of parameters are identifiers; those that a **kwargs takes can be any str, or a subclass of it.
    if type(name) is not str:
        raise Unserializable(str(name), f"is named by a {type(name).__name__}; pass a plain str")
    return _string(name, ascii(name), 0)


def _prepare(value: Any, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise Unserializable(path, f"is nested deeper than {MAX_DEPTH} levels")
    if value is None or value is True or value is False:
        return value
    prepare = _EXACT.get(type(value))
    if prepare is not None:
        return prepare(value, path, depth)
    if _is_a(value, "django.utils.functional", "Promise"):
        return _prepare(value._proxy____cast(), path, depth)
    if _is_a(value, "django.utils.safestring", "SafeString"):
        return _string(str.__str__(value), path, depth)
    raise Unserializable(path, _refusal(value))


def _string(value: str, path: str, depth: int) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unserializable(path, "contains a lone surrogate, which UTF-8 cannot carry") from None
    return value[:]


def _integer(value: int, path: str, depth: int) -> int:
    if not -(2**63) <= value < 2**64:
        raise Unserializable(path, f"is an integer of {value.bit_length()} bits; 64 are carried, pass a str")
    return value


def _float(value: float, path: str, depth: int) -> float:
    if not math.isfinite(value):
        raise Unserializable(path, f"is {value}; only finite floats are carried")
    return value


def _list(value: list[Any] | tuple[Any, ...], path: str, depth: int) -> list[Any]:
    return [_prepare(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]


def _dict(value: dict[Any, Any], path: str, depth: int) -> dict[str, Any]:
    prepared = {}
    for key, item in value.items():
        if type(key) is not str:
            raise Unserializable(path, f"has a key of type {type(key).__name__}; keys must be str")
        prepared[_string(key, path, depth)] = _prepare(item, f"{path}.{key}", depth + 1)
    return prepared


def _datetime(value: datetime, path: str, depth: int) -> msgpack.ExtType:
    offset = value.utcoffset()
    if offset is None:
        raise Unserializable(path, "is a naive datetime; give it a time zone (django.utils.timezone.make_aware)")
    zone = value.tzinfo.key if isinstance(value.tzinfo, ZoneInfo) else None
    # The offset travels by itself: some Pythons misread one of less than a second in ISO text.
    wall = value.replace(tzinfo=None).isoformat()
    return _extension(_DATETIME, [wall, zone, value.fold, offset // timedelta(microseconds=1)])


def _time(value: time, path: str, depth: int) -> msgpack.ExtType:
    if value.tzinfo is not None:
        raise Unserializable(path, "is a time with a time zone; pass an aware datetime")
    return _extension(_TIME, [value.isoformat(), value.fold])


def _decimal(value: Decimal, path: str, depth: int) -> msgpack.ExtType:
    if not value.is_finite():
        raise Unserializable(path, f"is Decimal({str(value)!r}); only finite decimals are carried")
    return _extension(_DECIMAL, str(value))


_EXACT: dict[type, Callable[[Any, str, int], Any]] = {
    str: _string,
    int: _integer,
    float: _float,
    bytes: lambda value, path, depth: value,
    list: _list,
    tuple: _list,
    dict: _dict,
    datetime: _datetime,
    date: lambda value, path, depth: _extension(_DATE, value.isoformat()),
    time: _time,
    timedelta: lambda value, path, depth: _extension(_TIMEDELTA, [value.days, value.seconds, value.microseconds]),
    Decimal: _decimal,
    UUID: lambda value, path, depth: _extension(_UUID, value.bytes),
}


def _extension(code: int, body: Any) -> msgpack.ExtType:
    return msgpack.ExtType(code, msgpack.packb(body, use_bin_type=True))


def _from_extension(code: int, packed: bytes) -> Any:
    reader = _READERS.get(code)
    if reader is None:
        raise ValueError(f"unknown extension type {code}")
    return reader(msgpack.unpackb(packed, raw=False))


def _read_datetime(body: list[Any]) -> datetime:
    wall, zone, fold, offset = body
    tzinfo = ZoneInfo(zone) if zone else timezone(timedelta(microseconds=offset))
    return datetime.fromisoformat(wall).replace(tzinfo=tzinfo, fold=fold)


_READERS: dict[int, Callable[[Any], Any]] = {
    _DATETIME: _read_datetime,
    _DATE: date.fromisoformat,
    _TIME: lambda body: time.fromisoformat(body[0]).replace(fold=body[1]),
    _TIMEDELTA: lambda body: timedelta(*body),
    _DECIMAL: Decimal,
    _UUID: lambda body: UUID(bytes=body),
}


def _is_a(value: Any, module: str, name: str) -> bool:
    # The core does not import Django; its lazy strings are recognised by the name of their class.
    return any(base.__name__ == name and base.__module__ == module for base in type(value).__mro__)


def _refusal(value: Any) -> str:
    name = type(value).__name__
    if hasattr(type(value), "_meta") and hasattr(value, "pk"):
        return f"is a model instance ({name}); pass its primary key"
    if isinstance(value, Enum):
        return f"is an enum member ({name}); pass its .value"
    for base in (str, int, float, bytes, list, tuple, dict):
        if isinstance(value, base):
            return f"is a {name}, a subclass of {base.__name__}; pass a plain {base.__name__}"
    return f"is of type {name}, which cannot be carried"
