"""What operators type to find jobs: an exact id, or words such as ``kind:email``, ``queue:mail``, ``tag:vip``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django.db import connections
from django.db.models import BooleanField, Q
from django.db.models.expressions import RawSQL
from django.utils.text import smart_split, unescape_string_literal

from headgate_django.models.job import JobQuerySet

_HAS_TAG = "EXISTS (SELECT 1 FROM json_each(headgate_django_job.tags) WHERE json_each.value = %s)"


def conditions(text: str, using: str) -> list[Q] | None:
    """The conditions of ``kind:email queue:"two words"``, or None when a word has no known prefix."""
    found = []
    for word in smart_split(text):
        prefix, colon, value = word.partition(":")
        if not colon or not value or prefix not in PREFIXES:
            return None
        found.append(PREFIXES[prefix](_unquoted(value), using))
    return found or None


def find(jobs: JobQuerySet, text: str, within: Callable[[], Q]) -> JobQuerySet | None:
    """The jobs that the text asks for, or None when it is neither an id nor made of prefixes.

    An id is looked up by its index; anything else stays ``within`` the search window.
    """
    text = text.strip()
    exact = jobs.filter(pk=text)
    if exact.exists():
        return exact
    terms = conditions(text, jobs.db)
    return None if terms is None else jobs.filter(within(), *terms)


def _tag(value: str, using: str) -> Q:
    if connections[using].features.supports_json_field_contains:
        return Q(tags__contains=[value])
    return Q(RawSQL(_HAS_TAG, [value], output_field=BooleanField()))


def _error(value: str, using: str) -> Q:
    return Q(error_group=value) | Q(error_class__icontains=value) | Q(error_summary__icontains=value)


PREFIXES: Mapping[str, Callable[[str, str], Q]] = {
    "kind": lambda value, using: Q(kind=value),
    "queue": lambda value, using: Q(queue=value),
    "partition": lambda value, using: Q(partition_key=value),
    "tag": _tag,
    "error": _error,
}


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]
    return unescape_string_literal(value) if quoted else value
