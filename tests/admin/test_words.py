"""What people read agrees with the code."""

from __future__ import annotations

from pathlib import Path

from django.apps import apps
from django.contrib.admin import site

from headgate_django.admin.operations import Operation
from headgate_django.admin.words import REASONS, STATES, WORKER_STATUSES
from headgate_django.control import report
from headgate_django.control.search import PREFIXES
from headgate_django.core.commands import Status
from headgate_django.core.states import STORED

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "admin.md").read_text("utf-8")


def screens():
    return [screen for model, screen in site._registry.items() if model._meta.app_label == "headgate_django"]


def test_every_state_and_every_reason_has_its_word():
    reasons = {value for name, value in vars(report).items() if name.isupper()}

    assert set(STATES) == STORED
    assert set(REASONS) == reasons
    assert set(WORKER_STATUSES) == set(Status)


def test_the_page_names_every_permission():
    for model in apps.get_app_config("headgate_django").get_models():
        declared = [f"{action}_{model._meta.model_name}" for action in model._meta.default_permissions]
        for codename in [*declared, *(codename for codename, _ in model._meta.permissions)]:
            assert f"`{codename}`" in PAGE


def test_the_page_names_every_operation_and_every_prefix():
    operations: set[Operation] = {
        operation for screen in screens() for operation in getattr(screen, "operations", ())
    }

    assert {operation.name for operation in operations} == {
        "redrive", "promote", "release", "canary", "cancel", "discard", "pause", "resume",
        "quiet", "restart", "resign", "terminate",
    }  # fmt: skip
    for operation in operations:
        assert operation.name in PAGE
    for prefix in PREFIXES:
        assert f"`{prefix}:`" in PAGE


def test_the_page_names_every_screen():
    for screen in screens():
        name = str(screen.opts.verbose_name_plural)
        assert f"| {name[0].upper()}{name[1:]} |" in PAGE
