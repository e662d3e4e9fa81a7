"""Messages between a supervisor and its processes: msgpack frames over a socket pair, with file descriptors."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from array import array
from collections import deque
from collections.abc import Iterable

from headgate_django.worker import frames
from headgate_django.worker.frames import Message as Message

_CHUNK = 65_536
_FD = array("i").itemsize
_ROOM = 4 * _FD + 64
"""For a few descriptors, and what the kernel says about them."""


class Closed(Exception):
    """The other side is gone."""


class Garbled(Closed):
    """The other side has sent what is no message: a handler has written into a descriptor that is not its own."""


class Channel:
    """One end. ``send`` and ``post`` may be called from any thread; ``receive`` from one."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._lock = threading.Lock()
        self._unsent: deque[tuple[memoryview, tuple[int, ...]]] = deque()
        self._buffer = bytearray()
        self._fds: deque[int] = deque()

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Two connected ends. Raises OSError when there are no descriptors left."""
        left, right = socket.socketpair()
        return cls(left), cls(right)

    @classmethod
    def of(cls, descriptor: int) -> Channel:
        """The end behind a descriptor that was sent; it is the channel's from now on."""
        return cls(socket.socket(fileno=descriptor))

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    @property
    def congested(self) -> bool:
        """Whether something that was posted waits for the other side to read."""
        return bool(self._unsent)

    def send(self, message: Message) -> None:
        """Send one message, waiting until the other side has room for it. Raises Closed when it is gone."""
        # One call: an exception that is raised in this thread from outside never leaves half a message behind.
        try:
            with self._lock:
                self._socket.sendall(frames.pack(message))
        except OSError as error:
            raise Closed from error

    def post(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        """Send one message, and copies of descriptors with it, without ever waiting. Raises Closed.

        What the other side has no room for is kept, in order, until the next ``post`` or ``flush``. Not together
        with ``send`` on the same end.
        """
        data = frames.pack({**message, "fds": len(fds)} if fds else message)
        with self._lock:
            self._unsent.append((memoryview(data), _copies(fds)))
        self.flush()

    def flush(self) -> None:
        """Send what was kept, as far as there is room. Raises Closed."""
        try:
            with self._lock:
                while self._unsent:
                    data, fds = self._unsent[0]
                    sent = self._send_some(data, fds)
                    _close(fds)
                    self._unsent[0] = (data[sent:], ())
                    if sent == len(data):
                        self._unsent.popleft()
        except BlockingIOError:
            return
        except OSError as error:
            raise Closed from error

    def receive(self) -> Message:
        """The next message, waiting for it; descriptors are under ``fds``. Raises Closed at the end."""
        while (message := self._next()) is None:
            self._fill(0)
        return message

    def receive_ready(self) -> list[Message]:
        """Some of the messages that have come, without waiting: all are read when there is none. Raises Closed.

        Only some, because the kernel hands out no more at a time than up to the next descriptors. Raises Garbled.
        """
        # Not even for the end: a process that was forked by a dead one may hold the other side open.
        messages: list[Message] = []
        with contextlib.suppress(BlockingIOError):
            while not messages:
                self._fill(socket.MSG_DONTWAIT)
                while (message := self._next()) is not None:
                    messages.append(message)
        return messages

    def hang_up(self) -> None:
        """Both sides hear that it is over; the descriptor stays."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close this end, and every descriptor that is on its way through it."""
        with contextlib.suppress(OSError):
            self._socket.close()
        _close(self._fds)
        self._fds.clear()
        with self._lock:
            for _, fds in self._unsent:
                _close(fds)
            self._unsent.clear()

    def _send_some(self, data: memoryview, fds: tuple[int, ...]) -> int:
        # Not socket.send_fds and recv_fds, which ignore their flags.
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
        return self._socket.sendmsg([data], rights, socket.MSG_DONTWAIT)

    def _fill(self, flags: int) -> None:
        try:
            data, rights, _, _ = self._socket.recvmsg(_CHUNK, _ROOM, flags)
        except BlockingIOError:
            raise
        except OSError as error:
            raise Closed from error
        for level, kind, packed in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self._take(packed)
        if not data:
            raise Closed
        self._buffer += data

    def _take(self, packed: bytes) -> None:
        fds = array("i", packed[: len(packed) // _FD * _FD])
        for fd in fds:
            os.set_inheritable(fd, False)  # programs that a job starts must not hold it open
        self._fds.extend(fds)

    def _next(self) -> Message | None:
        try:
            message = frames.take(self._buffer)
        except ValueError as error:  # msgpack's own are among them
            raise Garbled from error
        if message is not None and "fds" in message:
            # The kernel drops those for which this process has no room.
            message["fds"] = [self._fds.popleft() for _ in range(min(message["fds"], len(self._fds)))]
        return message


def _copies(fds: Iterable[int]) -> tuple[int, ...]:
    copies: list[int] = []
    try:
        for fd in fds:
            copies.append(os.dup(fd))
    except OSError:
        _close(copies)
        raise
    return tuple(copies)


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)
