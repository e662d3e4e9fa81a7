"""Column types that behave the same on every database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from headgate_django.core.durations import from_ms

if TYPE_CHECKING:
    _CharField = models.CharField[str, str]
    _BigIntegerField = models.BigIntegerField[Any, Any]
else:
    _CharField, _BigIntegerField = models.CharField, models.BigIntegerField


class KeyField(_CharField):
    """Text that is compared and ordered by code point, as Python does: a routing name or an id.

    On PostgreSQL the column has collation "C": comparisons are cheaper, the order equals SQLite's, and no
    second index for LIKE is created (each index costs every transition of a job).
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        if connection.vendor == "postgresql":
            return f'character varying({self.max_length}) COLLATE "C"'
        return super().db_type(connection)

    def cast_db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        if connection.vendor == "postgresql":
            return f"character varying({self.max_length})"
        return super().cast_db_type(connection)


class MillisecondsField(_BigIntegerField):
    """An instant or a duration in integer milliseconds of the store's clock.

    An instant's field is called ``…_ms``; the model also gets a read-only property without the suffix, an aware
    datetime for people (None for 0 and NULL).
    """

    def __init__(self, *args: Any, instant: bool = False, **kwargs: Any) -> None:
        self.instant = instant
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.BigIntegerField", args, kwargs

    def contribute_to_class(self, cls: type[models.Model], name: str, private_only: bool = False) -> None:
        super().contribute_to_class(cls, name, private_only)
        if self.instant:
            setattr(cls, name.removesuffix("_ms"), property(_as_datetime(name)))


def _as_datetime(name: str) -> Any:
    def read(self: models.Model) -> Any:
        milliseconds = getattr(self, name)
        return from_ms(milliseconds) if milliseconds else None

    read.__doc__ = f"``{name}`` as an aware datetime, or None."
    return read
