"""Where a policy row comes from, shown beside it."""

from __future__ import annotations

from django.db import models


class Origin(models.TextChoices):
    """Who made the row. A row made from code and then edited by an operator is the operator's."""

    OPERATOR = "operator"
    CODE = "code", "settings"
    BACK_OFF = "back-off", "reactive back-off"


def origin_field() -> models.CharField[str, str]:
    """The column of every policy table."""
    return models.CharField(max_length=16, choices=Origin.choices, default=Origin.OPERATOR, editable=False)
