"""``@job``: declare a handler."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, ParamSpec, TypeVar, overload

from headgate_django.core.suggestion import suggestion
from headgate_django.exceptions import ConfigurationError
from headgate_django.jobs.handler import ExceptionTypes, Handler
from headgate_django.jobs.options import Backoff, Options
from headgate_django.jobs.registry import register

P = ParamSpec("P")
R = TypeVar("R")

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
    **options: Any,
) -> Any:
    """Declare a function as the handler of a kind of job: ``@job``, or ``@job("email:welcome", queue="mail")``.

    ``kind`` names the job in the database; without one it is ``module:function``, which a rename would change.
    ``aliases`` are former kinds that this handler also runs. ``schema_version`` is the version of the
    arguments, with ``@handler.upcaster(n)`` for older ones. ``backoff(exception, attempt)`` gives seconds until
    the next try, or None to give up. ``skip_on`` archives at once on these exceptions; ``retry_on``, when given,
    archives at once on all others. ``options`` are those of ``using()``, as defaults.

    Raises ConfigurationError for an unknown option, InvalidJob for a bad kind, and DuplicateKind, naming both
    places, when another function has the kind.
    """
    _check(kind, options)

    def declare(function: Callable[P, R]) -> Handler[P, R]:
        handler = Handler(
            function,
            kind=kind if isinstance(kind, str) else _default_kind(function),
            options=Options().changed(**options),
            aliases=(aliases,) if isinstance(aliases, str) else tuple(aliases),
            schema_version=schema_version,
            backoff=backoff,
            retry_on=_exception_types("retry_on", retry_on),
            skip_on=_exception_types("skip_on", skip_on),
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


def _exception_types(name: str, given: Any) -> ExceptionTypes:
    types = (given,) if isinstance(given, type) else tuple(given)
    for item in types:
        if not (isinstance(item, type) and issubclass(item, BaseException)):
            raise ConfigurationError(f"{name} must hold exception classes, not {item!r}")
    return types
