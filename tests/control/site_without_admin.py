"""A process of its own: a project that has neither the admin nor users."""

import json
import os
import sys

import django
from django.conf import settings

settings.configure(
    DATABASES={"default": json.loads(os.environ["QUEUE_DATABASE"])},
    INSTALLED_APPS=["headgate_django"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
)
django.setup()

from headgate_django.control.cancel import cancel  # noqa: E402
from headgate_django.control.redrive import redrive  # noqa: E402
from headgate_django.control.timeline import timeline  # noqa: E402
from headgate_django.core.envelope import Envelope  # noqa: E402
from headgate_django.lifecycle.enqueue import enqueue  # noqa: E402


class Somebody:
    """An actor of another kind than Django's users."""

    pk = 7

    def has_perm(self, perm: str, obj: object = None) -> bool:
        return perm in ("headgate_django.redrive_job", "headgate_django.cancel_job")


[job] = enqueue([Envelope(kind="sample:ok", payload=b"\x80")])
cancel([job.pk], actor=Somebody())
assert [str(moment.what) for moment in timeline(job, [])] == ["Enqueued"]
sys.stdout.write(str(redrive([job.pk], actor=Somebody())))
