"""Policies that settings may declare: what was declared is kept on the row, so that an operator's edit shows."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _


class DeclaredPolicy(models.Model):
    """A policy row. ``declared`` is what settings last said of it; None when they say nothing."""

    declared = models.JSONField(null=True, blank=True, editable=False)

    class Meta:
        abstract = True

    def policy(self) -> Any:
        """What the row says now, in the form in which it is declared. Pausing is not part of it."""
        raise NotImplementedError

    @property
    def is_edited(self) -> bool:
        """Whether an operator has the last word: settings no longer change the row."""
        return self.declared is None or self.declared != self.policy()

    @property
    def origin(self) -> Any:
        """Where the row comes from, for people."""
        if self.declared is None:
            return _("operator")
        return _("settings, edited by an operator") if self.is_edited else _("settings")
