"""Settings of the benchmarks: the SQLite file in BENCHMARK_SQLITE, else a PostgreSQL from the dev extra."""

import os

from tests.support import postgres
from tests.support.census import name_connections

SECRET_KEY = "only-for-benchmarks"
USE_TZ = True
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "headgate_django",
    "benchmarks.noop",
]
if file := os.environ.get("BENCHMARK_SQLITE"):
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": file,
            "OPTIONS": {"timeout": 20, "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"},
        }
    }
else:
    DATABASES = {"default": postgres.database()}
name_connections()
if os.environ.get("BENCHMARK_LOG_STATEMENTS"):
    DEBUG = True
    LOGGING = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "statement %(message)s"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
        "loggers": {"django.db.backends": {"handlers": ["stderr"], "level": "DEBUG"}},
    }
