"""Decoded values as text for a person: bounded whatever the payload holds, and never an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headgate_django.core import codec

MAX_SHOWN = 65_536
"""Characters of one text."""
MAX_RAW = 1_024
"""Bytes that are shown of a payload that cannot be decoded."""
MAX_INLINE = 8
"""Scalars that share a line."""


@dataclass(frozen=True, slots=True)
class Text:
    """``cut``: something is left out. ``trouble``: why it could not be decoded."""

    shown: str
    cut: bool = False
    trouble: str = ""

    def __repr__(self) -> str:  # what it shows is private
        return f"<Text of {len(self.shown)} characters>"


def decoded(data: bytes) -> Text:
    """The arguments of a payload. Bytes that are none are shown as hex, with the reason."""
    try:
        return pretty(codec.decode(data))
    except (ValueError, RecursionError) as error:
        return Text(data[:MAX_RAW].hex(" "), len(data) > MAX_RAW, str(error) or type(error).__name__)


def pretty(value: Any) -> Text:
    """The value in Python's notation, one item a line. Stops at ``MAX_SHOWN`` characters."""
    shown: list[str] = []
    room = MAX_SHOWN
    for piece in _pieces(value, ""):
        shown.append(piece[:room])
        if len(piece) > room:
            return Text("".join(shown), cut=True)
        room -= len(piece)
    return Text("".join(shown))


def _pieces(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _items(((f"{_scalar(key)}: ", item) for key, item in value.items()), "{}", indent)
    elif isinstance(value, list) and not _is_short(value):
        yield from _items((("", item) for item in value), "[]", indent)
    elif isinstance(value, list):
        yield f"[{', '.join(_scalar(item) for item in value)}]"
    else:
        yield _scalar(value)


def _items(items: Iterator[tuple[str, Any]], brackets: str, indent: str) -> Iterator[str]:
    inner = indent + "  "
    yield brackets[0]
    empty = True
    for label, item in items:
        empty = False
        yield f"\n{inner}{label}"
        yield from _pieces(item, inner)
        yield ","
    yield brackets[1] if empty else f"\n{indent}{brackets[1]}"


def _is_short(value: list[Any]) -> bool:
    return len(value) <= MAX_INLINE and not any(isinstance(item, dict | list) for item in value)


def _scalar(value: Any) -> str:
    # repr escapes control and direction characters; a long text is cut before it is escaped.
    return repr(value[: MAX_SHOWN + 1] if isinstance(value, str | bytes) else value)
