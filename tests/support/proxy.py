"""A proxy before this test's PostgreSQL that loses the server's replies to a chosen statement."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from django.db import connection

PORT = 5432


class Proxy:
    """Forwards to the server. The reply to ``at``, in a session that has sent ``marker``, never arrives.

    By then the server has done what it was told. So it goes ``times`` times; then everything is forwarded.
    """

    def __init__(self, folder: Path, marker: bytes, at: bytes, times: int) -> None:
        self.lost = 0
        self._target = connection.get_connection_params()
        self._folder = folder
        self._marker, self._at, self._times = marker, at, times
        self._sockets: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / f".s.PGSQL.{PORT}"))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """For HEADGATE_TEST_DATABASE_URL of processes."""
        user, password = (quote(self._target.get(name) or "", safe="") for name in ("user", "password"))
        return f"postgres://{user}:{password}@/postgres?host={self._folder}&port={PORT}"

    def close(self) -> None:
        """End every session."""
        for one in (self._listener, *self._sockets):
            _shut(one)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = self._connect()
                self._sockets += [client, server]
                threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _connect(self) -> socket.socket:
        host, port = self._target.get("host") or "localhost", self._target.get("port") or PORT
        if not host.startswith("/"):
            return socket.create_connection((host, int(port)))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        losing = threading.Event()
        back = threading.Thread(target=_forward, args=(server, client, losing), daemon=True)
        back.start()
        marked = False
        with contextlib.suppress(OSError):
            while sent := client.recv(65_536):
                marked = marked or self._marker in sent
                if marked and self._at in sent and self.lost < self._times:
                    self.lost += 1
                    losing.set()
                server.sendall(sent)
        _shut(server)


def _forward(server: socket.socket, client: socket.socket, losing: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while (reply := server.recv(65_536)) and not losing.is_set():
            client.sendall(reply)
    _shut(client)
    _shut(server)


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


@contextmanager
def losing_replies(marker: str, *, at: str, times: int) -> Iterator[Proxy]:
    """The proxy, while it runs."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-proxy-"))
    proxy = Proxy(folder, marker.encode(), at.encode(), times)
    try:
        yield proxy
    finally:
        proxy.close()
        shutil.rmtree(folder)
