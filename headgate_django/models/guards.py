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

GUARDED = ("state", "fence", "lease_id", "lease_expires_at_ms")
"""The law and the right to write: an instance that was read earlier must not write them back."""


def guard_save(
    sender: type[models.Model],
    instance: Any,
    raw: bool = False,
    using: str = "default",
    update_fields: Iterable[str] | None = None,
    **kwargs: Any,
) -> None:
    """Refuse a ``save()`` that would change a stored state or lease, or store a job in a state it cannot start in.

    Compares with the row, not with what the instance remembers: it may be stale, a proxy, or have deferred
    its state. Fixtures (``raw``) restore rows as they were dumped; the CHECK constraints still hold.
    """
    if raw or not issubclass(sender, Job):
        return
    written = set(GUARDED if update_fields is None else update_fields) - instance.get_deferred_fields()
    names = [name for name in GUARDED if name in written]
    if not names:
        return
    rows = Job._base_manager.using(using).filter(pk=instance.pk)
    stored = rows.values("state", *names).first()
    if stored is None:
        if instance.state not in INITIAL:
            raise IllegalTransition(instance.pk, "(new)", f"save with state {str(instance.state)!r}", HINT)
        return
    for name in names:
        wanted = getattr(instance, name)
        if wanted != stored[name]:
            raise IllegalTransition(instance.pk, stored["state"], f"save with {name} {str(wanted)!r}", HINT)


pre_save.connect(guard_save, dispatch_uid="headgate_django.guard_save")
