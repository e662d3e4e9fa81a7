"""What the supervisor says of its health: in a file, over HTTP, to systemd. None of it asks the database."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import selectors
import time
from collections.abc import Sequence
from pathlib import Path

from headgate_django.exceptions import ConfigurationError
from headgate_django.worker.options import WorkerOptions
from headgate_django.worker.supervisor.child import Child
from headgate_django.worker.supervisor.port import Port
from headgate_django.worker.supervisor.systemd import Systemd

logger = logging.getLogger("headgate_django.worker")

SILENT_SECONDS = 30.0
"""A child that has given no sign of life for so long is not alive."""

STATUS = {True: "200 OK", False: "503 Service Unavailable"}


class Health:
    """Live: nothing is frozen. Started: every process has served. Ready: one admits, and its database answers."""

    def __init__(self, options: WorkerOptions, selector: selectors.BaseSelector) -> None:
        self._file = Path(options.health_file) if options.health_file else None
        self._address = options.health_port
        self._port = Port(selector, self._response)
        self._systemd = Systemd()
        self._facts: dict[str, object] = {"live": True, "ready": False, "started": False}

    def open(self) -> None:
        """Listen, and write the file, as far as asked for. Raises ConfigurationError when that cannot be done."""
        try:
            self._write()
        except OSError as error:
            raise ConfigurationError(f"--health-file {self._file}: {error}") from error
        if self._address:
            logger.info("health at http://%s/live, /ready and /started", self._port.open(self._address))

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
            with contextlib.suppress(OSError):
                self._write()
        self._port.tidy()

    def close(self) -> None:
        """Answer no more. A file left behind would look alive to a probe that only asks whether it exists."""
        self.close_in_child()
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)

    def _write(self) -> None:
        if self._file is not None:
            fresh = self._file.with_name(f"{self._file.name}.{os.getpid()}")
            fresh.write_text(json.dumps(self._facts) + "\n")
            fresh.replace(self._file)  # whoever reads it reads all of it

    def close_in_child(self) -> None:
        """Release what a forked child has inherited."""
        self._port.close()
        self._systemd.close()

    def _response(self, path: str) -> tuple[str, str]:
        name = path.split("?")[0].strip("/") or "live"
        known = name in ("live", "ready", "started")
        return STATUS[bool(self._facts[name])] if known else "404 Not Found", json.dumps(self._facts) + "\n"
