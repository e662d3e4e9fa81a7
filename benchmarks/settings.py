"""Settings of the benchmarks: DATABASE_URL, else a PostgreSQL from the dev extra."""

from tests.support import postgres

SECRET_KEY = "only-for-benchmarks"
USE_TZ = True
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "headgate_django",
    "benchmarks.noop",
]
DATABASES = {"default": postgres.database()}
