"""Settings of workers whose connections are counted: the suite's, and each process names its sessions."""

import os

from tests.settings import *  # noqa: F403
from tests.support.census import name_connections

name_connections()
DATABASES["default"]["CONN_MAX_AGE"] = int(os.environ.get("HEADGATE_TEST_CONN_MAX_AGE", "0"))  # noqa: F405
DEBUG = os.environ.get("HEADGATE_TEST_DEBUG") == "1"
