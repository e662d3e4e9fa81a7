"""Words to systemd, as a service of ``Type=notify`` with a watchdog (see sd_notify(3))."""

from __future__ import annotations

import contextlib
import os
import socket


class Systemd:
    """The datagram socket of ``Type=notify``; silent when there is none."""

    def __init__(self) -> None:
        # Taken out of the environment: what a job starts must not speak for the service.
        address = os.environ.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket: socket.socket | None = None
        if self._address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)

    def say(self, state: str) -> None:
        """Send one assignment, such as ``READY=1``."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.sendto(state.encode(), self._address)

    def close(self) -> None:
        """Release the socket."""
        if self._socket is not None:
            self._socket.close()
