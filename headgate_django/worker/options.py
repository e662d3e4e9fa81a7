"""The worker's options: one table from which the command line, the environment, the settings and the docs derive.

A flag beats the environment variable, which beats ``HEADGATE["WORKER"]``, which beats the default.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headgate_django.conf import config
from headgate_django.core.admission import EVERY_QUEUE
from headgate_django.core.durations import to_ms
from headgate_django.core.envelope import check_key
from headgate_django.core.suggestion import suggestion
from headgate_django.exceptions import ConfigurationError, InvalidJob


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Validated options. Durations are milliseconds; queues map a name to its weight."""

    queues: Mapping[str, int]
    threads: int
    lease: int
    shutdown_timeout: int
    poll_interval: int
    burst: bool
    max_jobs: int
    duties: bool
    database: str
    name: str


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table. ``parse`` takes (where, value) and raises ConfigurationError naming ``where``."""

    name: str
    default: Any
    parse: Callable[[str, Any], Any]
    metavar: str
    help: str

    @property
    def flag(self) -> str:
        """``--shutdown-timeout``."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """``HEADGATE_SHUTDOWN_TIMEOUT``."""
        return "HEADGATE_" + self.name.upper()

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return self.parse is _switch


def parse_queues(where: str, value: object) -> dict[str, int]:
    """``critical:6,default:3`` or a dict → name to weight; ``*`` is every queue."""
    if isinstance(value, Mapping):
        pairs = [(str(name), weight) for name, weight in value.items()]
    elif isinstance(value, str):
        pairs = [_queue_pair(where, part.strip()) for part in value.split(",") if part.strip()]
    else:
        raise ConfigurationError(f"{where} must look like critical:6,default:3, not {value!r}")
    if not pairs:
        raise ConfigurationError(f"{where} names no queue")
    queues: dict[str, int] = {}
    for name, weight in pairs:
        if name in queues:
            raise ConfigurationError(f"{where} names queue {name!r} twice")
        try:
            check_key(where, name, required=True)
        except InvalidJob as error:
            raise ConfigurationError(str(error)) from error
        queues[name] = _integer(f"{where}: weight of {name!r}", weight, minimum=1)
    return queues


def _queue_pair(where: str, part: str) -> tuple[str, Any]:
    name, colon, weight = part.rpartition(":")
    return (name, weight) if colon else (part, 1)


def _integer(where: str, value: object, *, minimum: int) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise ConfigurationError(f"{where} must be a whole number, not {value!r}") from None
    if isinstance(value, bool) or number < minimum:
        raise ConfigurationError(f"{where} must be at least {minimum}, not {value!r}")
    return number


def _at_least(minimum: int) -> Callable[[str, Any], int]:
    return lambda where, value: _integer(where, value, minimum=minimum)


def _seconds(minimum_ms: int) -> Callable[[str, Any], int]:
    def parse(where: str, value: Any) -> int:
        try:
            return to_ms(float(value) if isinstance(value, str) else value, where, minimum=minimum_ms)
        except InvalidJob as error:
            raise ConfigurationError(str(error)) from error
        except ValueError:
            raise ConfigurationError(f"{where} must be a number of seconds, not {value!r}") from None

    return parse


def _switch(where: str, value: object) -> bool:
    words = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    parsed = words.get(str(value).lower())
    if parsed is None:
        raise ConfigurationError(f"{where} must be true or false, not {value!r}")
    return parsed


def _name(where: str, value: object) -> str:
    try:
        check_key(where, str(value))
    except InvalidJob as error:
        raise ConfigurationError(str(error)) from error
    if not str(value).isascii():
        raise ConfigurationError(f"{where} must be ASCII, not {value!r}")
    return str(value)


OPTIONS = (
    Option(
        "queues",
        EVERY_QUEUE,
        parse_queues,
        "NAME[:WEIGHT],…",
        "Queues to serve, with weights: critical:6,default:3 gives critical twice as many slots as default while "
        "both have work. * is every queue.",
    ),
    Option("threads", 10, _at_least(1), "N", "Jobs to run at the same time, in threads or on the event loop."),
    Option(
        "lease",
        30,
        _seconds(1_000),
        "SECONDS",
        "How long a claim lasts without renewal (each third of it). A killed machine's jobs run again after it.",
    ),
    Option(
        "shutdown_timeout",
        25,
        _seconds(0),
        "SECONDS",
        "How long running jobs may take to finish on SIGTERM or SIGINT before their leases are given back.",
    ),
    Option("poll_interval", 2, _seconds(50), "SECONDS", "Longest pause between two looks at an empty queue."),
    Option(
        "burst", False, _switch, "", "Exit when nothing is left that may run now. Does not wait for future jobs."
    ),
    Option("max_jobs", 0, _at_least(0), "N", "Exit cleanly after N jobs; 0 is no limit."),
    Option("duties", True, _switch, "", "Take part in the fleet's sweeps: reclaim, evict and the like."),
    Option("database", "", _name, "ALIAS", "Database alias to serve; default: where the queue's tables live."),
    Option("name", "", _name, "NAME", "Id of this worker, unique in the fleet; default: host-pid-random."),
)


def resolve(flags: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> WorkerOptions:
    """The options of this worker. Raises ConfigurationError naming the flag, variable or setting that is wrong."""
    declared = config().worker
    known = [option.name.upper() for option in OPTIONS]
    for key in declared:
        if key not in known:
            raise ConfigurationError(f"HEADGATE['WORKER'][{key!r}] is not an option" + suggestion(str(key), known))
    values = {option.name: _value(option, flags, environ, declared) for option in OPTIONS}
    values["name"] = values["name"] or default_name()
    return WorkerOptions(**values)


def _value(
    option: Option, flags: Mapping[str, Any], environ: Mapping[str, str], declared: Mapping[str, Any]
) -> Any:
    if flags.get(option.name) is not None:
        return option.parse(option.flag, flags[option.name])
    if environ.get(option.variable, "") != "":
        return option.parse(option.variable, environ[option.variable])
    if option.name.upper() in declared:
        return option.parse(f"HEADGATE['WORKER'][{option.name.upper()!r}]", declared[option.name.upper()])
    return option.parse(option.name, option.default)


def default_name() -> str:
    """A worker id that is unique in the fleet and says where the worker lives."""
    host = socket.gethostname().encode("ascii", "replace").decode()[:100]
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
