"""Rate classes with their budgets and buckets, and concurrency limits. No row means no policy."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from headgate_django.core.declarations import MAX_TOKENS, MAX_WINDOW_MS
from headgate_django.core.turnstile import Saturated, Scope
from headgate_django.models.declared import DeclaredPolicy
from headgate_django.models.fields import KeyField, MillisecondsField
from headgate_django.models.store import alias, write_transaction


class RateClassQuerySet(models.QuerySet["RateClass"]):
    """Rate classes, deleted in the order in which they are locked: the class first, then its buckets."""

    def delete(self) -> tuple[int, dict[str, int]]:
        """As Django's, which would begin with the buckets."""
        rows = self.using(self._db or alias())  # type: ignore[attr-defined]
        with write_transaction(rows.db):
            rows.lock()
            return super(RateClassQuerySet, rows).delete()

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]

    def lock(self) -> None:
        """Lock the rows, by name, as an admit does."""
        list(self.order_by("pk").select_for_update().values_list("pk"))


class RateClass(DeclaredPolicy):
    """A name that jobs draw tokens under: all its budgets must have room for a job's weight."""

    name = KeyField(primary_key=True, max_length=255)
    paused = models.BooleanField(default=False, help_text="Kill switch: a paused class admits nothing.")
    held_until_ms = MillisecondsField(
        default=0, instant=True, help_text="Set when the far end said to come back later."
    )

    objects = RateClassQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "rate classes"
        permissions = [("pause_rateclass", "Can pause and resume rate classes")]

    def __str__(self) -> str:
        return self.name

    def delete(self, using: str | None = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:
        """As Django's, in the order of ``RateClassQuerySet.delete``."""
        using = using or alias()
        with write_transaction(using):
            RateClass.objects.using(using).filter(pk=self.pk).lock()
            return super().delete(using=using, keep_parents=keep_parents)

    delete.alters_data = True  # type: ignore[attr-defined]

    def policy(self) -> list[dict[str, int | bool]]:
        """The budgets, in an order of their own."""
        columns = ("limit", "window_ms", "burst", "per_partition")
        budgets = [{name: getattr(budget, name) for name in columns} for budget in self.budgets.all()]
        return sorted(budgets, key=lambda budget: tuple(budget.values()))


class RateBudget(models.Model):
    """So many tokens a window; of the class, or of each partition of the class."""

    rate_class = models.ForeignKey(RateClass, on_delete=models.CASCADE, related_name="budgets")
    limit = models.PositiveIntegerField(
        validators=[MinValueValidator(1), MaxValueValidator(MAX_TOKENS)], help_text="Tokens per window."
    )
    window_ms = MillisecondsField(
        validators=[MinValueValidator(1), MaxValueValidator(MAX_WINDOW_MS)],
        help_text="Length of the window in milliseconds: 1000 is a second, 60000 a minute, 3600000 an hour.",
    )
    burst = models.PositiveIntegerField(
        validators=[MinValueValidator(1), MaxValueValidator(MAX_TOKENS)],
        help_text="Most tokens at once, after an idle time. A window may see burst + limit.",
    )
    per_partition = models.BooleanField(default=False, help_text="One bucket for each partition.")

    class Meta:
        default_permissions = ()
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                name="headgate_budget_positive",
                condition=Q(limit__gte=1, limit__lte=MAX_TOKENS, burst__gte=1, burst__lte=MAX_TOKENS)
                & Q(window_ms__gte=1, window_ms__lte=MAX_WINDOW_MS),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.limit} per {self.window_ms / 1000:g} s"


class RateBucket(models.Model):
    """The level of one budget, of one partition when it has one bucket each. A missing row is a full bucket."""

    budget = models.ForeignKey(RateBudget, on_delete=models.CASCADE, related_name="buckets")
    partition_key = KeyField(max_length=255, default="", blank=True)
    level = models.BigIntegerField(help_text="Tokens times window_ms.")
    refilled_at_ms = MillisecondsField(instant=True)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["budget", "partition_key"], name="headgate_bucket_once"),
        ]

    def __str__(self) -> str:
        return f"{self.budget_id}/{self.partition_key}"


class ConcurrencyLimit(DeclaredPolicy):
    """At most so many running jobs of a queue, of each partition of a queue, or of a rate class."""

    name = KeyField(primary_key=True, max_length=255)
    scope = KeyField(max_length=16, choices=[(scope.value, scope.replace("_", " ")) for scope in Scope])
    key = KeyField(max_length=255, help_text="The queue, or the rate class. Of a partition scope: its queue.")
    max_concurrent = models.PositiveIntegerField(validators=[MinValueValidator(1)])
    on_saturated = KeyField(
        max_length=16,
        choices=[(strategy.value, strategy.replace("_", " ")) for strategy in Saturated],
        default=Saturated.QUEUE.value,
        help_text="What becomes of a job that finds the scope full.",
    )

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(name="headgate_limit_positive", condition=Q(max_concurrent__gte=1)),
            models.CheckConstraint(
                name="headgate_limit_scope", condition=Q(scope__in=[scope.value for scope in Scope])
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.max_concurrent} of {self.scope} {self.key}"

    def policy(self) -> dict[str, str | int]:
        """Scope, ceiling and strategy."""
        columns = ("scope", "key", "max_concurrent", "on_saturated")
        return {name: getattr(self, name) for name in columns}
