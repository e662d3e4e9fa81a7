"""A process of its own: users, sessions and the log live in ``default``, which has no table of the queue."""

import json
import os
import sys

import django
from django.conf import settings


class Router:
    """The queue's tables are made in ``queue`` only; reads and writes are not routed: HEADGATE must be enough."""

    def allow_migrate(self, db, app_label, **hints):
        return (app_label == "headgate_django") == (db == "queue")


settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.environ["USERS_DATABASE"],
            "ATOMIC_REQUESTS": True,
        },
        "queue": {**json.loads(os.environ["QUEUE_DATABASE"]), "ATOMIC_REQUESTS": True},
    },
    DATABASE_ROUTERS=[Router()],
    HEADGATE={"DATABASE": "queue"},
    INSTALLED_APPS=[
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "django.contrib.messages",
        "django.contrib.staticfiles",
        "headgate_django",
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[
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
    ],
    ROOT_URLCONF="tests.urls",
    STATIC_URL="/static/",
    SECRET_KEY="only-for-tests",
    ALLOWED_HOSTS=["testserver"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
)
django.setup()

from django.contrib.admin.models import LogEntry  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import DatabaseError, connections  # noqa: E402
from django.test import Client  # noqa: E402

from headgate_django.control.cancel import cancel  # noqa: E402
from headgate_django.core.envelope import Envelope  # noqa: E402
from headgate_django.core.states import State  # noqa: E402
from headgate_django.lifecycle.enqueue import enqueue  # noqa: E402
from headgate_django.models import Job, Partition, Queue  # noqa: E402

SCREENS = ("job", "archivedjob", "quarantine", "queue", "partition", "worker", "duty")

call_command("migrate", database="default", verbosity=0)
assert not [name for name in connections["default"].introspection.table_names() if name.startswith("headgate")]
user = User.objects.create_superuser("root")
client = Client()
client.force_login(user)


def operate(verb, *ids, screen="job", **extra):
    url = f"/admin/headgate_django/{screen}/operate/{verb}/"
    response = client.post(url, {"ids": json.dumps(ids), "confirmed": "yes", **extra})
    assert response.status_code == 302, (verb, response.status_code)


def state(job):
    return Job.objects.using("queue").get(pk=job.pk).state


for screen in SCREENS:
    assert client.get(f"/admin/headgate_django/{screen}/").status_code == 200, screen

job, other = enqueue([Envelope(kind="sample:ok", payload=b"\x80") for _ in range(2)])
operate("cancel", job.pk)
assert state(job) == State.CANCELLED
operate("redrive", job.pk, extra_attempts="2")
assert state(job) == State.AVAILABLE
assert client.get(f"/admin/headgate_django/job/{job.pk}/change/").status_code == 200
assert client.post(f"/admin/headgate_django/job/{job.pk}/reveal/").status_code == 200
messages = LogEntry.objects.using("default").order_by("pk").values_list("change_message", flat=True)
assert list(messages) == ["Cancelled.", "Redriven with 2 extra attempts.", "Revealed payload and headers."]

queue = {"name": "mail", "weight": 2, "paused": "on", "max_unfinished_jobs": ""}
assert client.post("/admin/headgate_django/queue/add/", queue).status_code == 302
again = client.post("/admin/headgate_django/queue/add/", {**queue, "weight": 9})
assert "one with this name already" in again.content.decode()
assert client.post("/admin/headgate_django/queue/mail/change/", {"weight": 5}).status_code == 302
saved = Queue.objects.using("queue").get()
assert (saved.weight, saved.paused) == (5, False)
operate("pause", "mail", screen="queue")
assert Queue.objects.using("queue").get().paused
partition = {"queue": "mail", "key": "acme", "weight": 2}
assert client.post("/admin/headgate_django/partition/add/", partition).status_code == 302
assert "already exists" in client.post("/admin/headgate_django/partition/add/", partition).content.decode()
assert Partition.objects.using("queue").count() == 1
assert client.post("/admin/headgate_django/queue/mail/delete/", {"post": "yes"}).status_code == 302
assert not Queue.objects.using("queue").exists()

# What cannot be recorded is not done, also when the record is elsewhere.
with connections["default"].cursor() as cursor:
    cursor.execute("DROP TABLE django_admin_log")
try:
    cancel([other.pk], actor=user)
except DatabaseError:
    assert state(other) == State.AVAILABLE
else:
    raise AssertionError("it was done without a record")
sys.stdout.write("all well")
