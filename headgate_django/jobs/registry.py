"""Which handler runs which kind, in this process."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from django.apps import apps

from headgate_django.conf import config
from headgate_django.exceptions import ConfigurationError, DuplicateKind
from headgate_django.jobs.handler import Handler

_handlers: dict[str, Handler[..., Any]] = {}


def register(handler: Handler[..., Any]) -> None:
    """Make ``handler`` the one for its kind and aliases. Raises DuplicateKind naming both places."""
    for kind in (handler.kind, *handler.aliases):
        known = _handlers.get(kind)
        if known is not None and not _is_reload(known, handler):
            raise DuplicateKind(f"kind {kind!r} is declared twice: by {known.place} and by {handler.place}")
    for kind in (handler.kind, *handler.aliases):
        _handlers[kind] = handler


def _is_reload(known: Handler[..., Any], handler: Handler[..., Any]) -> bool:
    # A module that is imported again (autoreload, a test) declares the same function anew.
    return known.place == handler.place


def find(kind: str) -> Handler[..., Any] | None:
    """The handler of a kind or alias, or None."""
    return _handlers.get(kind)


def kinds() -> list[str]:
    """Every registered kind and alias, sorted."""
    return sorted(_handlers)


def autodiscover() -> list[str]:
    """Import the jobs module of every installed app; the names of those found.

    An app without one is fine. Raises ConfigurationError naming the module whose import failed.
    """
    found = []
    for app in apps.get_app_configs():
        module = f"{app.name}.{config().jobs_module}"
        if importlib.util.find_spec(module) is None:
            continue
        try:
            importlib.import_module(module)
        except DuplicateKind:
            raise
        except Exception as error:
            raise ConfigurationError(f"cannot import {module}: {type(error).__name__}: {error}") from error
        found.append(module)
    return found
