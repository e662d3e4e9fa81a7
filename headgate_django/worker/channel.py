"""Messages between a supervisor and its processes: msgpack frames over a socket pair, with file descriptors."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections import deque
from typing import Any

import msgpack

Message = dict[str, Any]

_HEADER = struct.Struct("!I")
_CHUNK = 65_536
_MAX_FDS = 4


class Closed(Exception):
    """The other side is gone."""


class Channel:
    """One end. ``send`` may be called from any thread; ``receive`` from one."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._lock = threading.Lock()
        self._buffer = bytearray()
        self._fds: deque[int] = deque()

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Two connected ends."""
        left, right = socket.socketpair()
        return cls(left), cls(right)

    @classmethod
    def of(cls, descriptor: int) -> Channel:
        """The end behind a descriptor that was sent; the channel owns a copy of it."""
        return cls(socket.socket(fileno=os.dup(descriptor)))

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    def send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        """Send one message, and copies of descriptors with it. Raises Closed when the other side is gone."""
        body = msgpack.packb({**message, "fds": len(fds)} if fds else message)
        data = memoryview(_HEADER.pack(len(body)) + body)
        try:
            with self._lock:
                if fds:
                    data = data[socket.send_fds(self._socket, [data], list(fds)) :]
                if data:
                    self._socket.sendall(data)
        except OSError as error:
            raise Closed from error

    def receive(self) -> Message:
        """The next message, waiting for it; descriptors are under ``fds``. Raises Closed at the end."""
        while (message := self._next()) is None:
            self._fill()
        return message

    def receive_ready(self) -> list[Message]:
        """Every message that has come with what can be read now: call when select says so. Raises Closed."""
        self._fill()
        messages = []
        while (message := self._next()) is not None:
            messages.append(message)
        return messages

    def close(self) -> None:
        """Close this end."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def _fill(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._socket, _CHUNK, _MAX_FDS)
        except OSError as error:
            raise Closed from error
        self._fds.extend(fds)
        if not data:
            raise Closed
        self._buffer += data

    def _next(self) -> Message | None:
        if len(self._buffer) < _HEADER.size:
            return None
        (length,) = _HEADER.unpack_from(self._buffer)
        end = _HEADER.size + length
        if len(self._buffer) < end:
            return None
        message: Message = msgpack.unpackb(bytes(self._buffer[_HEADER.size : end]), strict_map_key=False)
        del self._buffer[:end]
        if "fds" in message:
            message["fds"] = [self._fds.popleft() for _ in range(message["fds"])]
        return message
