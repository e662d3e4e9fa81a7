"""Sizes of memory as people write them, in bytes."""

from __future__ import annotations

import re

from headgate_django.exceptions import ConfigurationError

_UNITS = {"": 1, "B": 1, "K": 1024, "KB": 1024, "M": 1024**2, "MB": 1024**2, "G": 1024**3, "GB": 1024**3}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([A-Z]*)")


def to_bytes(value: object, name: str, *, minimum: int = 0) -> int:
    """Bytes of ``268435456`` or ``"256MB"`` (a kilobyte is 1,024 bytes); 0 is no limit.

    Raises ConfigurationError naming ``name`` for anything else, and for a size below ``minimum`` bytes.
    """
    found = None if isinstance(value, bool) else _SIZE.fullmatch(str(value).strip().upper())
    if found is None or found[2] not in _UNITS:
        raise ConfigurationError(f"{name} must be a size such as 256MB or a number of bytes, not {value!r}")
    size = int(float(found[1]) * _UNITS[found[2]])
    if size and size < minimum:
        raise ConfigurationError(f"{name} must be at least {minimum // 1024**2}MB, not {value!r}")
    return size
