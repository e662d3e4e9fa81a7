"""Settings of the example shop. Everything can be changed by environment variables or a ``.env`` file.

DATABASE_URL   default: an SQLite file beside manage.py; ``postgres://user:password@host/name`` for PostgreSQL
ALLOWED_HOSTS  default: this machine only
DEBUG          default: on while ALLOWED_HOSTS names this machine only
SECRET_KEY     must be given as soon as ALLOWED_HOSTS names anything else
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import environ

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()
if (BASE_DIR / ".env").is_file():
    env.read_env(BASE_DIR / ".env")

LOOPBACK = ["127.0.0.1", "localhost", "[::1]"]
ALLOWED_HOSTS: list[str] = env.list("ALLOWED_HOSTS", default=LOOPBACK)
_LOCAL = set(ALLOWED_HOSTS) <= set(LOOPBACK)
DEBUG: bool = env.bool("DEBUG", default=_LOCAL)
SECRET_KEY: str = env.str("SECRET_KEY", default="insecure: for this machine only" if _LOCAL else env.NOTSET)


def _database() -> dict[str, Any]:
    if "DATABASE_URL" in env.ENVIRON:
        database = dict(env.db_url("DATABASE_URL"))
    else:
        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(BASE_DIR / "demo.sqlite3")}
    if database["ENGINE"] == "django.db.backends.sqlite3":
        # WAL lets readers and one writer work at once. A transaction that starts by reading and then writes
        # would fail at once beside another writer; IMMEDIATE makes it wait its turn, up to the timeout.
        database["OPTIONS"] = {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        }
    return database


DATABASES = {"default": _database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "headgate_django",
    "example_project.shop",
]

HEADGATE = {
    "CRASH_LIMIT": 3,
    "RETENTION": timedelta(days=7),
}

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "example_project.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
WSGI_APPLICATION = "example_project.wsgi.application"
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
