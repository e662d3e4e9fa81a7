"""The Django application."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class HeadgateConfig(AppConfig):
    """Registers the guards and the checks. Touches no database."""

    name = "headgate_django"
    verbose_name = _("Headgate job queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from headgate_django import checks
        from headgate_django.models import guards

        checks.register()
        assert guards
