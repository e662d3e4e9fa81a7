"""Policies as code: rows for what settings declare. An operator's edit is never overwritten."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from headgate_django.conf import config
from headgate_django.models.declared import DeclaredPolicy
from headgate_django.models.limits import ConcurrencyLimit, RateBudget, RateClass
from headgate_django.models.queue import Queue
from headgate_django.models.store import alias, retrying_locked, write_transaction

logger = logging.getLogger("headgate_django.control")


def sync_declared(*, using: str = "") -> list[str]:
    """Make the rows that settings declare and that are missing; the names of those made or changed.

    A row that nobody edited since it was declared follows the declaration. One that an operator made or edited
    stays as it is. Several workers may do this at once.
    """
    using = using or alias()
    declared = config()
    changed: list[str] = []
    for model, policies, write in (
        (Queue, declared.queues, _write_columns),
        (RateClass, declared.rate_classes, _write_budgets),
        (ConcurrencyLimit, declared.concurrency_limits, _write_columns),
    ):
        changed += _sync(model, policies, write, using)
    if changed:
        logger.info("declared policies: %s", ", ".join(changed))
    return changed


def _sync(
    model: type[DeclaredPolicy], policies: Mapping[str, Any], write: Callable[[Any, Any], None], using: str
) -> list[str]:
    rows = model._default_manager.using(using)
    known = {row.pk: row for row in rows.filter(pk__in=list(policies))}
    changed = []
    for name, policy in sorted(policies.items()):
        row = known.get(name)
        if row is None or (row.declared != policy and not row.is_edited):
            if retrying_locked(using, lambda name=name, policy=policy: _apply(model, name, policy, write, using)):  # type: ignore[misc]
                changed.append(f"{model._meta.verbose_name} {name}")
        elif row.declared != policy:
            logger.warning(
                "%s %s differs from what settings declare: an operator changed it", model._meta.verbose_name, name
            )
    return changed


def _apply(
    model: type[DeclaredPolicy], name: str, policy: Any, write: Callable[[Any, Any], None], using: str
) -> bool:
    with write_transaction(using):
        rows = model._default_manager.using(using)
        row = rows.select_for_update().filter(pk=name).first()
        if row is None:
            defaults = policy if isinstance(policy, dict) else {}
            row, created = rows.get_or_create(pk=name, defaults={**defaults, "declared": policy})
            if not created:
                return False  # another worker was first
        elif row.is_edited:
            return False
        write(row, policy)
        row.declared = policy
        row.save(using=using)
        return True


def _write_columns(row: Any, policy: Mapping[str, Any]) -> None:
    for column, value in policy.items():
        setattr(row, column, value)


def _write_budgets(row: RateClass, policy: list[dict[str, Any]]) -> None:
    using = row._state.db
    row.budgets.all().delete()
    RateBudget.objects.using(using).bulk_create([RateBudget(rate_class=row, **budget) for budget in policy])
