"""A real PgBouncer in transaction mode before this test's database, with as few server sessions as it takes."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
PORT = 6432
POOL_SIZE = 2
PATIENCE = 60.0

CONFIGURATION = """\
[databases]
* = {target}

[pgbouncer]
unix_socket_dir = {folder}
listen_addr =
listen_port = {port}
logfile = {folder}/log
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 500
"""


def url(folder: Path) -> str:
    """For HEADGATE_TEST_DATABASE_URL of processes."""
    return f"postgres://postgres@/postgres?host={folder}&port={PORT}"


@contextmanager
def pgbouncer() -> Iterator[Path]:
    """The folder with the socket of a running PgBouncer."""
    assert PROGRAM, "there is no pgbouncer on this machine"
    folder = Path(tempfile.mkdtemp(prefix="headgate-pgbouncer-"))
    (folder / "ini").write_text(
        CONFIGURATION.format(target=_target(), folder=folder, port=PORT, pool_size=POOL_SIZE)
    )
    user = _user()
    if user is not None:
        os.chown(folder, user, -1)
    folder.chmod(0o755)
    command = [PROGRAM, "-q", str(folder / "ini")]
    process = subprocess.Popen(command, user=user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + PATIENCE
        while not (folder / f".s.PGSQL.{PORT}").exists():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < end, "pgbouncer does not open its socket"
            time.sleep(0.02)
        yield folder
    finally:
        process.terminate()
        process.wait(PATIENCE)
        shutil.rmtree(folder)


def _user() -> int | None:
    """It refuses to run as root: then it runs as the owner of the server's socket, who may reach it."""
    host = str(connection.get_connection_params().get("host", ""))
    if os.geteuid() != 0:
        return None
    return os.stat(host).st_uid if host.startswith("/") else pwd.getpwnam("nobody").pw_uid


def _target() -> str:
    parameters = connection.get_connection_params()
    known = {name: parameters.get(name) for name in ("host", "port", "user", "password")}
    return " ".join(f"{name}={value}" for name, value in known.items() if value)
