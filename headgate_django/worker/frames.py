"""Messages as bytes: the length of a msgpack map, and the map."""

from __future__ import annotations

import struct
from typing import Any

import msgpack

Message = dict[str, Any]
"""``t`` says what it is."""

_HEADER = struct.Struct("!I")
_LONGEST = 64 * 1024**2


def pack(message: Message) -> bytes:
    """One message, ready to be sent."""
    body: bytes = msgpack.packb(message)
    return _HEADER.pack(len(body)) + body


def take(buffer: bytearray) -> Message | None:
    """Cut the first message off what has come; None while it is not complete. Raises ValueError for garbage."""
    if len(buffer) < _HEADER.size:
        return None
    (length,) = _HEADER.unpack_from(buffer)
    end = _HEADER.size + length
    if length > _LONGEST:
        raise ValueError("too long")
    if len(buffer) < end:
        return None
    message = msgpack.unpackb(bytes(buffer[_HEADER.size : end]), strict_map_key=False)
    if not isinstance(message, dict) or not isinstance(message.get("t"), str):
        raise ValueError("no message")
    del buffer[:end]
    return message
