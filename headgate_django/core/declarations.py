"""Policies as settings declare them, parsed into the form in which their rows state them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from headgate_django.core.durations import to_ms
from headgate_django.core.envelope import check_key
from headgate_django.core.suggestion import suggestion
from headgate_django.core.turnstile import Saturated, Scope
from headgate_django.exceptions import ConfigurationError, InvalidJob

MAX_TOKENS = 1_000_000_000
MAX_WINDOW_MS = 31 * 24 * 3600 * 1000
"""Together they keep tokens times milliseconds within 64 bits."""

_UNITS = {"second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_RATE = re.compile(r"(\d+)\s*(?:/|\s+per\s+)\s*(\w+)")

Policy = dict[str, Any]


def queue(where: str, declared: object) -> Policy:
    """``{"weight": 3, "max_unfinished_jobs": 1000}``."""
    options = _options(where, declared, {"weight", "max_unfinished_jobs"})
    cap = options.get("max_unfinished_jobs")
    return {
        "weight": _number(f"{where}['weight']", options.get("weight", 1), 1),
        "max_unfinished_jobs": None if cap is None else _number(f"{where}['max_unfinished_jobs']", cap, 0),
    }


def rate_class(where: str, declared: object) -> list[Policy]:
    """``["100/minute", {"limit": 1000, "window": 3600, "burst": 50, "per_partition": True}]``, or one of them."""
    budgets = declared if isinstance(declared, list | tuple) else [declared]
    parsed = [_budget(f"{where}[{index}]", budget) for index, budget in enumerate(budgets)]
    return sorted(parsed, key=lambda budget: tuple(budget.values()))


def concurrency_limit(where: str, declared: object) -> Policy:
    """``{"queue": "invoices", "per_partition": True, "max_concurrent": 3, "on_saturated": "queue"}``."""
    known = {"queue", "rate_class", "per_partition", "max_concurrent", "on_saturated"}
    options = _options(where, declared, known)
    if ("queue" in options) == ("rate_class" in options):
        raise ConfigurationError(f"{where} must name either a queue or a rate_class")
    per_partition = _flag(f"{where}['per_partition']", options.get("per_partition", False))
    if per_partition and "queue" not in options:
        raise ConfigurationError(f"{where}['per_partition'] belongs to a queue, not to a rate_class")
    if "max_concurrent" not in options:
        raise ConfigurationError(f"{where} lacks 'max_concurrent'")
    strategy = options.get("on_saturated", Saturated.QUEUE.value)
    if strategy not in set(Saturated):
        raise ConfigurationError(f"{where}['on_saturated'] is {strategy!r}" + suggestion(str(strategy), Saturated))
    scope = Scope.RATE_CLASS if "rate_class" in options else Scope.PARTITION if per_partition else Scope.QUEUE
    return {
        "scope": scope.value,
        "key": name(where, options.get("queue", options.get("rate_class"))),
        "max_concurrent": _number(f"{where}['max_concurrent']", options["max_concurrent"], 1),
        "on_saturated": str(strategy),
    }


def parse_all(where: str, declared: object, parse: Callable[[str, object], Any]) -> dict[str, Any]:
    """A mapping of names to policies. Raises ConfigurationError naming the entry that is wrong."""
    if not isinstance(declared, Mapping):
        raise ConfigurationError(f"{where} must be a dict, not {type(declared).__name__}")
    return {name(where, key): parse(f"{where}[{key!r}]", value) for key, value in declared.items()}


def name(where: str, value: Any) -> str:
    """A queue's, class's or limit's name."""
    try:
        check_key(where, value, required=True)
    except InvalidJob as error:
        raise ConfigurationError(str(error)) from error
    return str(value)


def _budget(where: str, declared: object) -> Policy:
    if isinstance(declared, str):
        match = _RATE.fullmatch(declared.strip())
        unit = match.group(2).removesuffix("s") if match else ""
        if match is None or unit not in _UNITS:
            raise ConfigurationError(f"{where} must look like '100/minute' or be a dict, not {declared!r}")
        declared = {"limit": int(match.group(1)), "window": _UNITS[unit] / 1000}
    options = _options(where, declared, {"limit", "window", "burst", "per_partition"})
    for required in ("limit", "window"):
        if required not in options:
            raise ConfigurationError(f"{where} lacks {required!r}")
    limit = _number(f"{where}['limit']", options["limit"], 1, MAX_TOKENS)
    return {
        "limit": limit,
        "window_ms": _window(f"{where}['window']", options["window"]),
        "burst": _number(f"{where}['burst']", options.get("burst", limit), 1, MAX_TOKENS),
        "per_partition": _flag(f"{where}['per_partition']", options.get("per_partition", False)),
    }


def _window(where: str, value: Any) -> int:
    try:
        window_ms = to_ms(value, where)
    except InvalidJob as error:
        raise ConfigurationError(str(error)) from error
    if window_ms > MAX_WINDOW_MS:
        raise ConfigurationError(f"{where} must be at most 31 days")
    return window_ms


def _options(where: str, declared: object, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(declared, Mapping):
        raise ConfigurationError(f"{where} must be a dict, not {type(declared).__name__}")
    for key in declared:
        if key not in known:
            raise ConfigurationError(f"{where}[{key!r}] is not an option" + suggestion(str(key), known))
    return declared


def _number(where: str, value: object, minimum: int, maximum: int = 2**31 - 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        raise ConfigurationError(f"{where} must be an int between {minimum} and {maximum}, not {value!r}")
    return value


def _flag(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{where} must be True or False, not {value!r}")
    return value
