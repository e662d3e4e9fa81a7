"""Other installations: no admin, and a queue that lives in another database than the users and their log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def run(script, **environment):
    database = {
        key: value
        for key, value in connection.settings_dict.items()
        if key in ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT", "OPTIONS")
    }
    return subprocess.run(
        [sys.executable, "-W", "error", str(HERE / script)],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "QUEUE_DATABASE": json.dumps(database, default=str),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.django_db(transaction=True)
def test_the_verbs_work_where_the_admin_is_not_installed():
    done = run("site_without_admin.py")

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "redrive: 1 done"


@pytest.mark.django_db(transaction=True)
def test_a_queue_in_another_database_is_operated_there_and_logged_with_the_users(tmp_path):
    done = run("site_with_two_databases.py", USERS_DATABASE=str(tmp_path / "users.sqlite3"))

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "all well"
