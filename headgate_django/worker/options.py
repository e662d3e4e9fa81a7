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
from headgate_django.core.suggestion import suggestion
from headgate_django.exceptions import ConfigurationError
from headgate_django.worker import parsing


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Validated options. Durations are milliseconds; queues map a name to its weight."""

    queues: Mapping[str, int]
    processes: int
    threads: int
    lease: int
    shutdown_timeout: int
    poll_interval: int
    burst: bool
    max_jobs: int
    max_memory: int
    timeout_grace: int
    start_timeout: int
    duties: bool
    database: str
    name: str
    code_version: str
    health_file: str
    health_port: str
    reload: bool


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
        return self.parse is parsing.switch


OPTIONS = (
    Option(
        "queues",
        EVERY_QUEUE,
        parsing.parse_queues,
        "NAME[:WEIGHT],…",
        "Queues to serve, with weights: critical:6,default:3 gives critical twice as many slots as default while "
        "both have work. * is every queue.",
    ),
    Option(
        "processes",
        1,
        parsing.at_least(0),
        "N",
        "Worker processes under one supervisor. 0 runs jobs in this process itself, without supervisor or "
        "isolation: for a debugger.",
    ),
    Option(
        "threads",
        10,
        parsing.between(1, 10_000),
        "N",
        "Jobs that a process runs at the same time: in threads, on the event loop, or in processes of their own.",
    ),
    Option(
        "lease",
        30,
        parsing.seconds(1_000),
        "SECONDS",
        "How long a claim lasts without renewal (each third of it, and at least every 15 seconds). A killed "
        "machine's jobs run again after it.",
    ),
    Option(
        "shutdown_timeout",
        25,
        parsing.seconds(0),
        "SECONDS",
        "How long running jobs may take to finish on SIGTERM or SIGINT before their leases are given back.",
    ),
    Option(
        "poll_interval", 2, parsing.seconds(50), "SECONDS", "Longest pause between two looks at an empty queue."
    ),
    Option(
        "burst",
        False,
        parsing.switch,
        "",
        "Exit when nothing is left that may run now. Does not wait for future jobs.",
    ),
    Option("max_jobs", 0, parsing.at_least(0), "N", "Replace a process after N jobs; 0 is no limit."),
    Option(
        "max_memory",
        0,
        parsing.size(32 * 1024**2),
        "SIZE",
        "Replace a process whose resident memory is above this, such as 512MB, when its jobs are done; 0 is no "
        "limit.",
    ),
    Option(
        "timeout_grace",
        5,
        parsing.seconds(100),
        "SECONDS",
        "How long a handler may go on when its time is up, until it is fenced off as stuck or, if isolated, "
        "killed.",
    ),
    Option(
        "start_timeout",
        60,
        parsing.seconds(1_000),
        "SECONDS",
        "How long a process may take until it serves; then it is killed and replaced.",
    ),
    Option("duties", True, parsing.switch, "", "Take part in the fleet's sweeps: reclaim, evict and the like."),
    Option(
        "database", "", parsing.name, "ALIAS", "Database alias to serve; default: where the queue's tables live."
    ),
    Option(
        "name",
        "",
        parsing.worker_name,
        "NAME",
        "Name of this worker, unique in the fleet; default: host-pid-random. Its processes have ids of their own.",
    ),
    Option(
        "code_version", "", parsing.text(64), "TEXT", "Version of the application's code, shown in the register."
    ),
    Option(
        "health_file", "", parsing.text(4_096), "PATH", "A file that is touched each second while all is well."
    ),
    Option(
        "health_port",
        "",
        parsing.address,
        "[HOST:]PORT",
        "Answer /live, /ready and /started over HTTP; on loopback unless a host is given.",
    ),
    Option("reload", False, parsing.switch, "", "For development: start afresh when a Python file changes."),
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
    if declared.get(option.name.upper()) is not None:
        return option.parse(f"HEADGATE['WORKER'][{option.name.upper()!r}]", declared[option.name.upper()])
    return option.parse(option.name, option.default)


def default_name() -> str:
    """A worker id that is unique in the fleet and says where the worker lives."""
    host = socket.gethostname().encode("ascii", "replace").decode()[:100]
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
