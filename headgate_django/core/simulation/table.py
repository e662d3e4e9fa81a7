"""A table of a scenario file: typed values, and errors that name the key."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headgate_django.core.durations import to_ms
from headgate_django.core.suggestion import suggestion
from headgate_django.exceptions import ConfigurationError, InvalidJob

_MISSING: Any = object()


class Table:
    """One table. Raises ConfigurationError for a key that is unknown, missing or has no sense."""

    def __init__(self, where: str, declared: Any, known: Iterable[str]) -> None:
        if not isinstance(declared, Mapping):
            raise ConfigurationError(f"{where} must be a table, not {declared!r}")
        self._where = where
        self._declared = declared
        for key in declared:
            if key not in set(known):
                raise ConfigurationError(f"{self.path(key)} is not a key" + suggestion(str(key), known))

    def path(self, key: str) -> str:
        """The full name of a key."""
        return f"{self._where}.{key}" if self._where else key

    def get(self, key: str, default: Any = _MISSING) -> Any:
        """The value, whatever it is."""
        value = self._declared.get(key, default)
        if value is _MISSING:
            raise ConfigurationError(f"{self.path(key)} is missing")
        return value

    def text(self, key: str, default: str = _MISSING) -> str:
        """A string."""
        value = self.get(key, default)
        if not isinstance(value, str):
            raise ConfigurationError(f"{self.path(key)} must be text, not {value!r}")
        return value

    def whole(self, key: str, default: int = _MISSING, *, minimum: int = 1, maximum: int = 2**31 - 1) -> int:
        """A whole number."""
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise ConfigurationError(
                f"{self.path(key)} must be a whole number from {minimum} to {maximum}, not {value!r}"
            )
        return value

    def number(self, key: str) -> float:
        """A positive number."""
        return _positive(self.path(key), self.get(key))

    def numbers(self, key: str, default: Sequence[float] = _MISSING, *, length: int = 0) -> tuple[float, ...]:
        """A list of positive numbers."""
        values = self.get(key, default)
        if not isinstance(values, list | tuple) or not values or (length and len(values) != length):
            wanted = f"a list of {length} numbers" if length else "a list of numbers"
            raise ConfigurationError(f"{self.path(key)} must be {wanted}, not {values!r}")
        return tuple(_positive(f"{self.path(key)}[{place}]", value) for place, value in enumerate(values))

    def seconds(self, key: str, default: float = _MISSING, *, minimum_ms: int = 1) -> int:
        """A duration in seconds, as milliseconds."""
        try:
            return to_ms(self.get(key, default), self.path(key), minimum=minimum_ms)
        except InvalidJob as error:
            raise ConfigurationError(str(error)) from error

    def tables(self, key: str, known: Iterable[str]) -> list[Table]:
        """A list of tables, at least one."""
        found = self.get(key)
        if not isinstance(found, list) or not found:
            raise ConfigurationError(f"{self.path(key)} must be given as [[{self.path(key)}]], not {found!r}")
        return [Table(f"{self.path(key)}[{place}]", one, known) for place, one in enumerate(found)]


def choice(where: str, declared: Any, key: str, known: Iterable[str]) -> str:
    """The value of ``key``, which says what the other keys of this table may be."""
    if not isinstance(declared, Mapping):
        raise ConfigurationError(f"{where} must be a table, not {declared!r}")
    if key not in declared:
        raise ConfigurationError(f"{where}.{key} is missing" + suggestion("", known))
    if declared[key] not in set(known):
        raise ConfigurationError(f"{where}.{key} is {declared[key]!r}" + suggestion(str(declared[key]), known))
    return str(declared[key])


def _positive(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigurationError(f"{where} must be a positive number, not {value!r}")
    return value
