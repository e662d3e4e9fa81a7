"""The HEADGATE setting as one frozen, validated value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from headgate_django.core import declarations
from headgate_django.core.durations import to_ms
from headgate_django.core.sizes import to_bytes
from headgate_django.core.suggestion import suggestion
from headgate_django.exceptions import ConfigurationError, InvalidJob

MAX_LOG_CAPTURE = 1024**2


class SettingError(ConfigurationError, ImproperlyConfigured):
    """A key or value of the HEADGATE setting is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every key of HEADGATE, lower-cased, with its default. Durations are integer milliseconds here."""

    database: str = ""
    """Alias that holds the queue's tables; empty asks the routers where ``Job`` is written."""
    jobs_module: str = "jobs"
    """Module looked for in every installed app; what it declares with ``@job`` is registered."""
    max_attempts: int = 25
    """Returned failures after which a job is archived, unless ``@job`` says otherwise."""
    retention: int = 7 * 24 * 3600 * 1000
    """How long terminal jobs are kept (seconds or timedelta in settings); 0 deletes a job on success."""
    crash_limit: int = 3
    """Lost leases after which a job is quarantined."""
    keep_attempts: str = "failures"
    """Which runs leave an Attempt row: ``failures``, ``all`` or ``none``."""
    log_capture: int = 16_384
    """How much of what a run logs is kept with its Attempt row, at most 1MB; 0 keeps nothing."""
    listen: bool | str = "auto"
    """Whether workers on PostgreSQL use LISTEN: True, False, or ``auto``: unless a pooler stands in between."""
    queues: Mapping[str, Any] = None  # type: ignore[assignment]
    """Queues to make rows for: ``{"critical": {"weight": 6, "max_unfinished_jobs": 10_000}}``."""
    rate_classes: Mapping[str, Any] = None  # type: ignore[assignment]
    """Budgets by class: ``{"mailgun": ["100/minute", {"limit": 5, "window": 1, "per_partition": True}]}``."""
    concurrency_limits: Mapping[str, Any] = None  # type: ignore[assignment]
    """Ceilings: ``{"invoices": {"queue": "invoices", "max_concurrent": 3, "on_saturated": "queue"}}``."""
    worker: Mapping[str, Any] = None  # type: ignore[assignment]
    """Defaults of the worker's options, by option name: ``{"THREADS": 8, "QUEUES": "critical:6,default:3"}``."""

    def __post_init__(self) -> None:
        for name in ("queues", "rate_classes", "concurrency_limits", "worker"):
            object.__setattr__(self, name, dict(getattr(self, name) or {}))


@lru_cache(maxsize=1)
def config() -> Config:
    """The configuration of this process. Raises SettingError naming the key that is wrong."""
    return parse(getattr(settings, "HEADGATE", {}))


def parse(declared: object) -> Config:
    """Validate a HEADGATE dict. Raises SettingError naming the key that is wrong."""
    if not isinstance(declared, Mapping):
        raise SettingError(f"HEADGATE must be a dict, not {type(declared).__name__}")
    known = [field.name.upper() for field in fields(Config)]
    for key in declared:
        if key not in known:
            raise SettingError(f"HEADGATE[{key!r}] is not a setting" + suggestion(str(key), known))
    values: dict[str, Any] = {
        key.lower(): _PARSERS[key](f"HEADGATE[{key!r}]", value) for key, value in declared.items()
    }
    return Config(**values)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise SettingError(f"{name} must be a str, not {type(value).__name__}")
    return value


def _positive(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 2**31 - 1:
        raise SettingError(f"{name} must be an int of at least 1, not {value!r}")
    return value


def _duration(name: str, value: Any) -> int:
    try:
        return to_ms(value, name, minimum=0)
    except InvalidJob as error:
        raise SettingError(str(error)) from error


def _keep(name: str, value: object) -> str:
    choices = ["failures", "all", "none"]
    if value not in choices:
        raise SettingError(f"{name} is {value!r}" + suggestion(str(value), choices))
    return str(value)


def _size(name: str, value: object) -> int:
    try:
        size = to_bytes(value, name)
    except ConfigurationError as error:
        raise SettingError(str(error)) from error
    if size > MAX_LOG_CAPTURE:
        raise SettingError(f"{name} must be at most 1MB, not {value!r}")
    return size


def _listen(name: str, value: object) -> bool | str:
    if not isinstance(value, bool) and value != "auto":
        raise SettingError(f"{name} must be True, False or 'auto', not {value!r}")
    return value


def _mapping(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingError(f"{name} must be a dict, not {type(value).__name__}")
    return value


def _policies(parse: Callable[[str, object], Any]) -> Callable[[str, object], Mapping[str, Any]]:
    def parse_setting(name: str, value: object) -> Mapping[str, Any]:
        try:
            return declarations.parse_all(name, value, parse)
        except ConfigurationError as error:
            raise SettingError(str(error)) from error

    return parse_setting


_PARSERS: dict[str, Callable[[str, Any], Any]] = {
    "DATABASE": _text,
    "JOBS_MODULE": _text,
    "MAX_ATTEMPTS": _positive,
    "RETENTION": _duration,
    "CRASH_LIMIT": _positive,
    "KEEP_ATTEMPTS": _keep,
    "LISTEN": _listen,
    "LOG_CAPTURE": _size,
    "QUEUES": _policies(declarations.queue),
    "RATE_CLASSES": _policies(declarations.rate_class),
    "CONCURRENCY_LIMITS": _policies(declarations.concurrency_limit),
    "WORKER": _mapping,
}


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting == "HEADGATE":
        config.cache_clear()


setting_changed.connect(_forget, dispatch_uid="headgate_django.conf")
