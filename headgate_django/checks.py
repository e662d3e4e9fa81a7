"""System checks: what would go wrong in production, said before it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.core import checks
from django.db import connections
from django.db.models import ForeignKey

from headgate_django.conf import SettingError, config
from headgate_django.models import Attempt, Job, Payload
from headgate_django.models.store import alias

SUPPORTED = ("postgresql", "sqlite")
SQLITE_MINIMUM = (3, 35, 0)
_DELETED = (Job, Payload, Attempt)


def register() -> None:
    """Called once the apps are ready."""
    checks.register(check_settings)
    checks.register(check_references, checks.Tags.models)
    checks.register(check_database, checks.Tags.database)


def check_settings(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """E001: HEADGATE has an unknown key or a wrong value. E002: its database alias is unknown."""
    try:
        database = config().database
    except SettingError as error:
        return [checks.Error(str(error), id="headgate_django.E001")]
    if database and database not in connections:
        message = f"HEADGATE['DATABASE'] is {database!r}, which DATABASES lacks"
        return [checks.Error(message, id="headgate_django.E002")]
    return []


def check_references(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """W003: a foreign key of another app keeps the queue from deleting jobs."""
    found = (
        (model, field)
        for app in app_configs or apps.get_app_configs()
        for model in app.get_models(include_auto_created=True)
        if model._meta.app_label != Job._meta.app_label
        for field in model._meta.local_fields
        if isinstance(field, ForeignKey)
        and field.db_constraint  # type: ignore[attr-defined]
        and isinstance(field.related_model, type)  # else Django says that there is no such model
        and field.related_model._meta.concrete_model in _DELETED
    )
    return [
        checks.Warning(
            f"{model._meta.label}.{field.name} points to a job, which can then never be deleted",
            hint="Store the job's id in a text column, or give the field db_constraint=False.",
            obj=model,
            id="headgate_django.W003",
        )
        for model, field in found
    ]


def check_database(
    app_configs: Any = None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """E003: unsupported database. E004: SQLite too old. W001: SQLite without WAL. W002: a short timeout."""
    using = alias()
    if databases is None or using not in databases:
        return []
    connection = connections[using]
    if connection.vendor not in SUPPORTED:
        return [
            checks.Error(
                f"database {using!r} is {connection.display_name}, which is not supported yet",
                hint="PostgreSQL in production, SQLite embedded.",
                id="headgate_django.E003",
            )
        ]
    return _check_sqlite(using) if connection.vendor == "sqlite" else []


def _check_sqlite(using: str) -> list[checks.CheckMessage]:
    messages: list[checks.CheckMessage] = []
    if connections[using].Database.sqlite_version_info < SQLITE_MINIMUM:  # type: ignore[attr-defined]
        minimum = ".".join(map(str, SQLITE_MINIMUM))
        messages.append(
            checks.Error(
                f"SQLite {connections[using].Database.sqlite_version} lacks RETURNING; {minimum} is needed",  # type: ignore[attr-defined]
                id="headgate_django.E004",
            )
        )
    with connections[using].cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        mode = cursor.fetchone()[0]
    if mode not in ("wal", "memory"):
        messages.append(
            checks.Warning(
                f"SQLite database {using!r} has journal mode {mode!r}: readers and the worker block each other",
                hint='OPTIONS: {"init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"}',
                id="headgate_django.W001",
            )
        )
    if connections[using].settings_dict["OPTIONS"].get("timeout", 5) < 5:
        messages.append(
            checks.Warning(
                f"SQLite database {using!r} waits less than 5 seconds for another writer",
                hint='OPTIONS: {"timeout": 20}',
                id="headgate_django.W002",
            )
        )
    return messages
