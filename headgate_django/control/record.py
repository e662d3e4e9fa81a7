"""The record of what operators did: a LogEntry per row, in the transaction that does it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.apps import apps
from django.db import models, router, transaction

from headgate_django.control.authority import Actor
from headgate_django.models.store import write_transaction


@contextmanager
def recorded_transaction(using: str, actor: Actor | None) -> Iterator[None]:
    """A write transaction of the queue's database in which ``record`` may be called.

    When the log lives in another database its transaction encloses this one: what cannot be recorded is not
    done, and only a failing commit of the log can part the two.
    """
    log = _log_alias(actor)
    if log in (None, using):
        with write_transaction(using):
            yield
    else:
        with transaction.atomic(using=log), write_transaction(using):
            yield


def record(actor: Actor | None, rows: Sequence[models.Model], message: str, *, deletion: bool = False) -> None:
    """Write down that the actor did this to the rows. Trusted code, and a site without admin, leave no entry."""
    if not rows or _log_alias(actor) is None:
        return
    from django.contrib.admin.models import CHANGE, DELETION, LogEntry

    flag = DELETION if deletion else CHANGE
    LogEntry.objects.log_actions(actor.pk, rows, flag, message)  # type: ignore[union-attr]


def entries(row: models.Model, limit: int) -> list[Any]:
    """The newest entries about this row, with their users; the concrete model's, also for a proxy."""
    if not apps.is_installed("django.contrib.admin"):
        return []
    from django.contrib.admin.models import LogEntry
    from django.contrib.contenttypes.models import ContentType

    content_type = ContentType.objects.get_for_model(row)
    found = LogEntry.objects.filter(content_type=content_type, object_id=str(row.pk))
    return list(found.select_related("user").order_by("-pk")[:limit])


def _log_alias(actor: Actor | None) -> str | None:
    if actor is None or not apps.is_installed("django.contrib.admin"):
        return None
    return router.db_for_write(apps.get_model("admin", "LogEntry"))
