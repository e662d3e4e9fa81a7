"""headgate_django: a durable job queue in which dequeue is an admission decision, not a fetch.

The public names. Those that need Django's apps to be ready are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headgate_django.exceptions import (
    Interrupted,
    RateLimited,
    Retry,
    Revoke,
    Skip,
    Snooze,
    Undecodable,
)

if TYPE_CHECKING:
    from headgate_django.gate.explain import explain
    from headgate_django.jobs.context import Context
    from headgate_django.jobs.decorator import job
    from headgate_django.jobs.handler import aenqueue_many, enqueue_many

__version__ = "0.1.0"

__all__ = [
    "Context",
    "Interrupted",
    "RateLimited",
    "Retry",
    "Revoke",
    "Skip",
    "Snooze",
    "Undecodable",
    "aenqueue_many",
    "enqueue_many",
    "explain",
    "job",
]

_LAZY = {
    "Context": "headgate_django.jobs.context",
    "aenqueue_many": "headgate_django.jobs.handler",
    "enqueue_many": "headgate_django.jobs.handler",
    "explain": "headgate_django.gate.explain",
    "job": "headgate_django.jobs.decorator",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
