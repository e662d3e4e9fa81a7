"""The Django application."""

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """Nothing to do at start: the worker finds ``jobs.py`` by itself."""

    name = "example_project.shop"
    label = "shop"
    default_auto_field = "django.db.models.BigAutoField"
