"""Django's admin as the operators' screens: skins over ``control`` and ``gate.explain``, no logic of their own."""

from headgate_django.admin import fleet, jobs, policies, quarantine, queues

__all__ = ["fleet", "jobs", "policies", "quarantine", "queues"]
