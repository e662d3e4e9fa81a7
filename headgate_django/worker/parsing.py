"""Values of the worker's options, from text or settings. Each raises ConfigurationError naming where it stood."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headgate_django.core.durations import to_ms
from headgate_django.core.envelope import check_key
from headgate_django.core.sizes import to_bytes
from headgate_django.exceptions import ConfigurationError, InvalidJob

MAX_WORKER_NAME = 230


def parse_queues(where: str, value: object) -> dict[str, int]:
    """``critical:6,default:3`` or a dict → name to weight; ``*`` is every queue."""
    if isinstance(value, Mapping):
        pairs = [(str(name), weight) for name, weight in value.items()]
    elif isinstance(value, str):
        pairs = [_queue_pair(where, part.strip()) for part in value.split(",") if part.strip()]
    else:
        raise ConfigurationError(f"{where} must look like critical:6,default:3, not {value!r}")
    if not pairs:
        raise ConfigurationError(f"{where} names no queue")
    queues: dict[str, int] = {}
    for name, weight in pairs:
        if name in queues:
            raise ConfigurationError(f"{where} names queue {name!r} twice")
        try:
            check_key(where, name, required=True)
        except InvalidJob as error:
            raise ConfigurationError(str(error)) from error
        queues[name] = integer(f"{where}: weight of {name!r}", weight, minimum=1)
    return queues


def _queue_pair(where: str, part: str) -> tuple[str, Any]:
    name, colon, weight = part.rpartition(":")
    return (name, weight) if colon else (part, 1)


def integer(where: str, value: object, *, minimum: int) -> int:
    """A whole number."""
    try:
        number = int(str(value))
    except ValueError:
        raise ConfigurationError(f"{where} must be a whole number, not {value!r}") from None
    if isinstance(value, bool) or number < minimum:
        raise ConfigurationError(f"{where} must be at least {minimum}, not {value!r}")
    return number


def between(minimum: int, maximum: int) -> Callable[[str, Any], int]:
    """Whole numbers within bounds."""

    def parse(where: str, value: Any) -> int:
        number = integer(where, value, minimum=minimum)
        if number > maximum:
            raise ConfigurationError(f"{where} must be at most {maximum}, not {value!r}")
        return number

    return parse


def at_least(minimum: int) -> Callable[[str, Any], int]:
    """Whole numbers from ``minimum`` on."""
    return lambda where, value: integer(where, value, minimum=minimum)


def seconds(minimum_ms: int) -> Callable[[str, Any], int]:
    """Seconds, as milliseconds."""

    def parse(where: str, value: Any) -> int:
        try:
            return to_ms(float(value) if isinstance(value, str) else value, where, minimum=minimum_ms)
        except InvalidJob as error:
            raise ConfigurationError(str(error)) from error
        except ValueError:
            raise ConfigurationError(f"{where} must be a number of seconds, not {value!r}") from None

    return parse


def switch(where: str, value: object) -> bool:
    """On or off."""
    words = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    parsed = words.get(str(value).lower())
    if parsed is None:
        raise ConfigurationError(f"{where} must be true or false, not {value!r}")
    return parsed


def name(where: str, value: object) -> str:
    """An ASCII name that fits a key column, or nothing."""
    try:
        check_key(where, str(value))
    except InvalidJob as error:
        raise ConfigurationError(str(error)) from error
    if not str(value).isascii():
        raise ConfigurationError(f"{where} must be ASCII, not {value!r}")
    return str(value)


def worker_name(where: str, value: object) -> str:
    """A name that leaves room for the numbers of the worker's processes."""
    found = name(where, value)
    if len(found) > MAX_WORKER_NAME:
        raise ConfigurationError(f"{where} must be at most {MAX_WORKER_NAME} characters long, not {len(found)}")
    return found


def size(minimum: int) -> Callable[[str, Any], int]:
    """A size of memory, as bytes; 0 is no limit."""
    return lambda where, value: to_bytes(value, where, minimum=minimum)


def text(longest: int) -> Callable[[str, Any], str]:
    """Any short text without control characters."""

    def parse(where: str, value: object) -> str:
        found = str(value)
        if len(found) > longest or not found.isprintable():
            raise ConfigurationError(f"{where} must be at most {longest} printable characters, not {value!r}")
        return found

    return parse


def address(where: str, value: object) -> str:
    """``8080`` or ``0.0.0.0:8080``, as ``host:port``; loopback unless a host is given."""
    found = str(value)
    if not found:
        return ""
    host, _, port = found.rpartition(":")
    return f"{host or '127.0.0.1'}:{between(0, 65_535)(where, port)}"
