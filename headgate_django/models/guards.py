"""The guard on ``save()``: a state changes through verbs, never through an assignment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import models
from django.db.models.signals import pre_save

from headgate_django.core.states import INITIAL
from headgate_django.exceptions import IllegalTransition
from headgate_django.models.job import Job

HINT = "a state changes through the verbs of headgate_django.control, never through save()"


def guard_state(
    sender: type[models.Model],
    instance: Any,
    raw: bool = False,
    using: str = "default",
    update_fields: Iterable[str] | None = None,
    **kwargs: Any,
) -> None:
    """Refuse a ``save()`` that would change a stored state, or store a new job in a state it cannot start in.

    Compares with the row, not with what the instance remembers: it may be stale, a proxy, or have deferred
    its state. Fixtures (``raw``) restore rows as they were dumped; the CHECK constraints still hold.
    """
    if raw or not issubclass(sender, Job):
        return
    if "state" in instance.get_deferred_fields() or (update_fields is not None and "state" not in update_fields):
        return
    stored = Job._base_manager.using(using).filter(pk=instance.pk).values_list("state", flat=True).first()
    wanted = str(instance.state)
    if stored is None and wanted not in INITIAL:
        raise IllegalTransition(instance.pk, "(new)", f"save with state {wanted!r}", HINT)
    if stored is not None and stored != wanted:
        raise IllegalTransition(instance.pk, stored, f"save with state {wanted!r}", HINT)


pre_save.connect(guard_state, dispatch_uid="headgate_django.guard_state")
