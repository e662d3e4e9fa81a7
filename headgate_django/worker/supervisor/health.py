"""What the supervisor says of its health: in a file, over HTTP, to systemd. None of it asks the database."""

from __future__ import annotations

import contextlib
import json
import logging
import selectors
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from headgate_django.exceptions import ConfigurationError
from headgate_django.worker.options import WorkerOptions
from headgate_django.worker.supervisor.child import Child
from headgate_django.worker.supervisor.systemd import Systemd

logger = logging.getLogger("headgate_django.worker")

SILENT_SECONDS = 30.0
"""A child that has given no sign of life for so long is not alive."""

PATIENCE_SECONDS = 5.0
MAX_CALLERS = 16
STATUS = {True: "200 OK", False: "503 Service Unavailable"}


class Health:
    """Live: nothing is frozen. Started: every process has served. Ready: one admits, and its database answers."""

    def __init__(self, options: WorkerOptions, selector: selectors.BaseSelector) -> None:
        self._file = Path(options.health_file) if options.health_file else None
        self._address = options.health_port
        self._selector = selector
        self._listener: socket.socket | None = None
        self._callers: dict[socket.socket, float] = {}
        self._systemd = Systemd()
        self._facts: dict[str, object] = {"live": True, "ready": False, "started": False}

    def open(self) -> None:
        """Listen, if a port was given. Raises ConfigurationError when it cannot be had."""
        if not self._address:
            return
        host, _, port = self._address.rpartition(":")
        try:
            self._listener = socket.create_server((host.strip("[]"), int(port)), backlog=MAX_CALLERS)
        except OSError as error:
            raise ConfigurationError(f"--health-port {self._address}: {error}") from error
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        logger.info("health at http://%s:%d/live, /ready and /started", *self._listener.getsockname()[:2])

    def started(self) -> None:
        """Every process serves."""
        self._facts["started"] = True
        self._facts["ready"] = True
        self._systemd.say("READY=1")

    def stopping(self) -> None:
        """No more work is taken."""
        self._systemd.say("STOPPING=1")

    def beat(self, children: Sequence[Child], slots: int, *, stopping: bool) -> None:
        """About every half second: what is so now."""
        now = time.monotonic()
        silent = [child.pid for child in children if now - child.heard > SILENT_SECONDS]
        serving = sum(child.serving for child in children)
        self._facts |= {
            "live": not silent,
            "ready": bool(self._facts["started"]) and serving > 0 and not stopping,
            "processes": slots,
            "serving": serving,
            "silent": silent,
        }
        if not silent:
            self._systemd.say("WATCHDOG=1")
            if self._file is not None:
                with contextlib.suppress(OSError):
                    self._file.write_text(json.dumps(self._facts) + "\n")
        for caller, since in list(self._callers.items()):
            if now - since > PATIENCE_SECONDS:
                self._hang_up(caller)

    def close(self) -> None:
        """Answer no more. A file left behind would look alive to a probe that only asks whether it exists."""
        self.close_in_child()
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)

    def close_in_child(self) -> None:
        """Release what a forked child has inherited."""
        for one in (self._listener, *self._callers):
            if one is not None:
                one.close()
        self._systemd.close()

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(OSError):
            caller, _ = self._listener.accept()
            caller.setblocking(False)
            if len(self._callers) >= MAX_CALLERS:
                caller.close()
                return
            self._callers[caller] = time.monotonic()
            self._selector.register(caller, selectors.EVENT_READ, lambda: self._answer(caller))

    def _answer(self, caller: socket.socket) -> None:
        with contextlib.suppress(OSError):
            words = caller.recv(2048).decode("latin-1").split()
            caller.sendall(self._response(words[1] if len(words) > 1 else "").encode())
        self._hang_up(caller)

    def _response(self, path: str) -> str:
        name = path.split("?")[0].strip("/") or "live"
        known = name in ("live", "ready", "started")
        status = STATUS[bool(self._facts[name])] if known else "404 Not Found"
        body = json.dumps(self._facts) + "\n"
        return (
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
        )

    def _hang_up(self, caller: socket.socket) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(caller)
        self._callers.pop(caller, None)
        caller.close()
