"""The example's settings are safe by default."""

from __future__ import annotations

import json
import os
import subprocess
import sys

PROBE = (
    "import json; from example_project import settings as s; "
    "print(json.dumps([s.DEBUG, s.ALLOWED_HOSTS, s.DATABASES['default']['ENGINE'].rpartition('.')[2]]))"
)


def load(**variables: str) -> subprocess.CompletedProcess[str]:
    known = ("DEBUG", "ALLOWED_HOSTS", "SECRET_KEY", "DATABASE_URL")
    environment = {name: value for name, value in os.environ.items() if name not in known}
    return subprocess.run(
        [sys.executable, "-c", PROBE], env={**environment, **variables}, capture_output=True, text=True, timeout=60
    )


def test_without_variables_it_is_a_debug_site_for_this_machine_on_sqlite():
    debug, hosts, engine = json.loads(load().stdout)

    assert (debug, engine) == (True, "sqlite3")
    assert set(hosts) == {"127.0.0.1", "localhost", "[::1]"}


def test_debug_is_off_as_soon_as_other_hosts_are_allowed():
    debug, _, _ = json.loads(load(ALLOWED_HOSTS="shop.example.com", SECRET_KEY="given").stdout)

    assert debug is False


def test_other_hosts_need_a_secret_key_of_their_own():
    process = load(ALLOWED_HOSTS="shop.example.com")

    assert process.returncode != 0
    assert "SECRET_KEY" in process.stderr


def test_a_database_url_chooses_postgresql():
    _, _, engine = json.loads(load(DATABASE_URL="postgres://user@host/shop").stdout)

    assert engine == "postgresql"
