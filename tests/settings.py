"""Settings of the test suite. HEADGATE_TEST_DB chooses the database of this process: sqlite or postgres."""

import errno
import os
import tempfile

from tests.support import postgres

DATABASE = os.environ.get("HEADGATE_TEST_DB", "sqlite")

SECRET_KEY = "only-for-tests"
DEBUG = False
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
ROOT_URLCONF = "tests.urls"
STATIC_URL = "/static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "headgate_django",
    "tests.sample",
    "example_project.shop",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
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

if DATABASE == "postgres":
    DATABASES = {"default": postgres.database()}
else:
    _folder = os.environ.setdefault("HEADGATE_TEST_FOLDER", tempfile.mkdtemp(prefix="headgate-test-"))
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.path.join(_folder, "headgate.sqlite3"),
            "OPTIONS": {"timeout": 20, "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"},
            "TEST": {"NAME": os.path.join(_folder, "test.sqlite3")},
        }
    }
if name := os.environ.get("HEADGATE_TEST_DB_NAME"):  # a process started by a test shares the test's database
    DATABASES["default"]["NAME"] = name

if os.environ.get("HEADGATE_TEST_LISTEN") == "no":
    HEADGATE = {"LISTEN": False}

if number := os.environ.get("HEADGATE_TEST_CHILD_DIES"):  # what a library that cannot stand a fork does
    os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), int(number)))

if path := os.environ.get(
    "HEADGATE_TEST_FORK_FAILS"
):  # while that file is there, as on a machine with too many processes
    _fork = os.fork

    def _fork_if_there_is_room() -> int:
        if os.path.exists(path):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return _fork()

    os.fork = _fork_if_there_is_room
