"""The least of an HTTP server that a probe needs: short answers to short requests, none of which is waited for."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from headgate_django.exceptions import ConfigurationError

PATIENCE_SECONDS = 5.0
MAX_CALLERS = 16
"""The one that has been there longest makes room for one more."""

MAX_REQUEST = 16_384

Answer = Callable[[str], tuple[str, str]]
"""From a path to the status and the body, which is JSON."""


@dataclass(eq=False)
class _Caller:
    socket: socket.socket
    since: float = field(default_factory=time.monotonic)
    request: bytearray = field(default_factory=bytearray)
    answered: bool = False


class Port:
    """Listens at an address, and answers as the selector's owner comes round."""

    def __init__(self, selector: selectors.BaseSelector, answer: Answer) -> None:
        self._selector = selector
        self._answer = answer
        self._listener: socket.socket | None = None
        self._deaf = False
        self._callers: list[_Caller] = []

    def open(self, address: str) -> str:
        """Listen; the address with the port that it became. Raises ConfigurationError when it cannot be had."""
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._listener = socket.create_server((host, int(port)), family=family, backlog=MAX_CALLERS)
        except OSError as error:
            raise ConfigurationError(f"--health-port {address}: {error}") from error
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        host, number = self._listener.getsockname()[:2]
        return f"[{host}]:{number}" if ":" in host else f"{host}:{number}"

    def tidy(self) -> None:
        """Hang up on those that take too long, and listen again if there was no room for one more."""
        now = time.monotonic()
        for caller in list(self._callers):
            if now - caller.since > PATIENCE_SECONDS:
                self._hang_up(caller)
        if self._deaf and self._listener is not None:
            self._deaf = False
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Release the sockets, here or in a forked child."""
        if self._listener is not None:
            self._listener.close()
        for caller in self._callers:
            caller.socket.close()

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            end, _ = self._listener.accept()
        except OSError:
            # No descriptor may be left: the caller waits, and would wake us again and again.
            self._selector.unregister(self._listener)
            self._deaf = True
            return
        end.setblocking(False)
        if len(self._callers) >= MAX_CALLERS:
            self._hang_up(self._callers[0])
        caller = _Caller(end)
        self._callers.append(caller)
        self._selector.register(end, selectors.EVENT_READ, lambda: self._hear(caller))

    def _hear(self, caller: _Caller) -> None:
        try:
            data = caller.socket.recv(4_096)
            if not data:
                self._hang_up(caller)
            elif not caller.answered:
                caller.request += data
                if b"\r\n\r\n" in caller.request or len(caller.request) > MAX_REQUEST:
                    self._respond(caller)
        except BlockingIOError:
            return
        except OSError:
            self._hang_up(caller)

    def _respond(self, caller: _Caller) -> None:
        caller.answered = True
        words = bytes(caller.request).decode("latin-1").split()
        status, body = self._answer(words[1] if len(words) > 1 else "nothing")
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        caller.socket.sendall((head if words[:1] == ["HEAD"] else head + body).encode())
        # It is closed when the caller has hung up: closed with something unread, it might lose our answer.
        caller.socket.shutdown(socket.SHUT_WR)

    def _hang_up(self, caller: _Caller) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(caller.socket)
        with contextlib.suppress(ValueError):
            self._callers.remove(caller)
        caller.socket.close()
