"""An application with jobs and one model, as a user of the package would write it."""

from django.apps import AppConfig


class SampleConfig(AppConfig):
    name = "tests.sample"
    label = "sample"
    default_auto_field = "django.db.models.BigAutoField"
