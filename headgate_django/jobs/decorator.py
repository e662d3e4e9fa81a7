"""``@job``: declare a handler."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, ParamSpec, TypeVar, overload

from headgate_django.core.sizes import to_bytes
from headgate_django.core.suggestion import suggestion
from headgate_django.exceptions import ConfigurationError
from headgate_django.jobs.handler import ExceptionTypes, Handler
from headgate_django.jobs.options import Backoff, Options
from headgate_django.jobs.registry import register

P = ParamSpec("P")
R = TypeVar("R")

MIN_MEMORY_LIMIT = 32 * 1024**2
_PER_CALL = ("id", "at", "headers")


@overload
def job(kind: Callable[P, R], /) -> Handler[P, R]: ...


@overload
def job(
    kind: str | None = None,
    /,
    *,
    aliases: Sequence[str] = (),
    schema_version: int = 1,
    backoff: Backoff | None = None,
    retry_on: type[BaseException] | Sequence[type[BaseException]] = (),
    skip_on: type[BaseException] | Sequence[type[BaseException]] = (),
    isolated: bool = False,
    memory_limit: int | str = 0,
    atomic: bool = False,
    **options: Any,
) -> Callable[[Callable[P, R]], Handler[P, R]]: ...


def job(
    kind: str | Callable[..., Any] | None = None,
    /,
    *,
    aliases: Sequence[str] = (),
    schema_version: int = 1,
    backoff: Backoff | None = None,
    retry_on: type[BaseException] | Sequence[type[BaseException]] = (),
    skip_on: type[BaseException] | Sequence[type[BaseException]] = (),
    isolated: bool = False,
    memory_limit: int | str = 0,
    atomic: bool = False,
    **options: Any,
) -> Any:
    """Declare a function as the handler of a kind of job: ``@job``, or ``@job("email:welcome", queue="mail")``.

    ``kind`` names the job in the database; without one it is ``module:function``, which a rename would change.
    ``aliases`` are former kinds that this handler also runs. ``schema_version`` is the version of the arguments,
    with ``@handler.upcaster(n)`` for older ones. ``backoff(exception, attempt)`` gives seconds to the next try, or
    None to give up. ``skip_on`` archives at once on these exceptions, ``retry_on`` on all others. ``isolated``
    gives each job its own process, of at most ``memory_limit`` (bytes, or ``"256MB"``). ``atomic`` makes what it
    writes to the queue's database one transaction with its ack. ``options`` are those of ``using()``, as defaults.

    Raises ConfigurationError for a wrong option, InvalidJob for a bad kind, DuplicateKind for one that is taken.
    """
    _check(kind, options)
    own = _own(aliases, backoff, retry_on, skip_on, isolated=isolated, memory_limit=memory_limit, atomic=atomic)

    def declare(function: Callable[P, R]) -> Handler[P, R]:
        handler = Handler(
            function,
            kind=kind if isinstance(kind, str) else _default_kind(function),
            options=Options().changed(**options),
            schema_version=schema_version,
            **own,
        )
        register(handler)
        return handler

    return declare(kind) if callable(kind) else declare


def _default_kind(function: Callable[..., Any]) -> str:
    return f"{function.__module__}:{function.__qualname__}"


def _check(kind: object, options: dict[str, Any]) -> None:
    if kind is not None and not isinstance(kind, str) and not callable(kind):
        raise ConfigurationError(f"@job takes the kind as a str, not {kind!r}")
    own = [name for name in inspect.signature(job).parameters if name not in {"kind", "options"}]
    known = own + [option.name for option in fields(Options) if option.name not in _PER_CALL]
    for name in options:
        if name in _PER_CALL:
            raise ConfigurationError(f"{name!r} belongs to one job: give it to using(), not to @job")
        if name not in known:
            raise ConfigurationError(f"{name!r} is not an option of @job" + suggestion(name, known))


def _own(
    aliases: Any,
    backoff: Any,
    retry_on: Any,
    skip_on: Any,
    *,
    isolated: bool,
    memory_limit: int | str,
    atomic: bool,
) -> dict[str, Any]:
    return {
        "aliases": (aliases,) if isinstance(aliases, str) else tuple(aliases),
        "backoff": backoff,
        "retry_on": _exception_types("retry_on", retry_on),
        "skip_on": _exception_types("skip_on", skip_on),
        "isolated": _switch("isolated", isolated),
        "memory_limit": _memory_limit(memory_limit, isolated),
        "atomic": _switch("atomic", atomic),
    }


def _switch(name: str, given: object) -> bool:
    if not isinstance(given, bool):
        raise ConfigurationError(f"{name} must be True or False, not {given!r}")
    return given


def _memory_limit(given: int | str, isolated: bool) -> int:
    limit = to_bytes(given, "memory_limit", minimum=MIN_MEMORY_LIMIT)
    if limit and not isolated:
        raise ConfigurationError(
            "memory_limit needs isolated=True: the limit is that of a process, which other handlers share"
        )
    return limit


def _exception_types(name: str, given: Any) -> ExceptionTypes:
    types = (given,) if isinstance(given, type) else tuple(given)
    for item in types:
        if not (isinstance(item, type) and issubclass(item, BaseException)):
            raise ConfigurationError(f"{name} must hold exception classes, not {item!r}")
    return types
