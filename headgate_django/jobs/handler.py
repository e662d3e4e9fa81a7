"""A handler: a function that runs jobs of one kind, and the ways to enqueue them."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

from asgiref.sync import markcoroutinefunction, sync_to_async

from headgate_django.core import codec
from headgate_django.core.envelope import Envelope, check_kind
from headgate_django.exceptions import ConfigurationError, InvalidJob
from headgate_django.jobs.options import Backoff, Options
from headgate_django.lifecycle.enqueue import enqueue
from headgate_django.models.job import Job

P = ParamSpec("P")
R = TypeVar("R")

CONTEXT = "context"
Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
ExceptionTypes = tuple[type[BaseException], ...]


class Handler(Generic[P, R]):
    """What ``@job`` returns. Calling it calls the function; ``enqueue`` stores a job.

    ``using(...)`` gives a copy with other options, so ``welcome.using(queue="fast").enqueue(user_id=42)``.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        kind: str,
        options: Options,
        aliases: Sequence[str] = (),
        schema_version: int = 1,
        backoff: Backoff | None = None,
        retry_on: ExceptionTypes = (),
        skip_on: ExceptionTypes = (),
        isolated: bool = False,
        memory_limit: int = 0,
        atomic: bool = False,
    ) -> None:
        for name in (kind, *aliases):
            check_kind(name)
        self.function = function
        self.kind = kind
        self.aliases = tuple(aliases)
        self.schema_version = schema_version
        self.options = options
        self.backoff = backoff
        self.retry_on = retry_on
        self.skip_on = skip_on
        self.isolated = isolated
        self.memory_limit = memory_limit
        self.atomic = atomic
        self.upcasters: dict[int, Upcaster] = {}
        _check_runnable(function, kind, atomic)
        options.envelope(kind, b"", schema_version)  # a bad option is found when it is declared
        self.signature = _payload_signature(function, kind)
        self.takes_context = CONTEXT in inspect.signature(function).parameters
        self.is_async = inspect.iscoroutinefunction(function)
        if self.is_async:
            markcoroutinefunction(self)  # calling it gives a coroutine, and callers may want to know
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", kind)
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Just call the function."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Handler {self.kind} {self.place}>"

    @property
    def place(self) -> str:
        """Where the function is defined, for messages."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
        return f"{self.function.__module__}.{getattr(self.function, '__qualname__', self.kind)}{where}"

    def using(self, **options: Any) -> Handler[P, R]:
        """A copy with other options. Raises ConfigurationError for an unknown one, with a suggestion."""
        clone = copy.copy(self)
        clone.options = self.options.changed(**options)
        return clone

    def envelope(self, *args: Any, **kwargs: Any) -> Envelope:
        """The validated envelope of a call, for ``enqueue_many``.

        Raises TypeError for arguments that do not fit the function, Unserializable with the path of a value that
        cannot be carried, and InvalidJob naming an option that is out of range.
        """
        try:
            arguments = _flat(self.signature.bind(*args, **kwargs))
            if self.takes_context and CONTEXT in arguments:
                raise TypeError(f"{CONTEXT!r} is given by the worker")
        except TypeError as error:
            raise TypeError(f"{self.kind}: {error}") from None
        try:
            payload = codec.encode(arguments)
            return self.options.envelope(self.kind, payload, self.schema_version)
        except InvalidJob as error:
            error.args = (f"{self.kind}: {error}",)
            raise

    def enqueue(self, *args: Any, **kwargs: Any) -> Job:
        """Store one job in the current transaction. Raises what ``envelope`` and ``enqueue_many`` raise."""
        return enqueue([self.envelope(*args, **kwargs)])[0]

    async def aenqueue(self, *args: Any, **kwargs: Any) -> Job:
        """``enqueue`` for async code, on the thread that owns the caller's connection."""
        return await sync_to_async(self.enqueue, thread_sensitive=True)(*args, **kwargs)

    def upcaster(self, version: int) -> Callable[[Upcaster], Upcaster]:
        """Register how arguments of ``version`` become those of ``version + 1``: a dict in, a dict out."""
        if not 1 <= version < self.schema_version:
            raise ConfigurationError(
                f"{self.kind}: an upcaster from version {version} needs a schema_version above it, "
                f"not {self.schema_version}"
            )

        def register(function: Upcaster) -> Upcaster:
            if version in self.upcasters:
                raise ConfigurationError(f"{self.kind}: two upcasters from version {version}")
            self.upcasters[version] = function
            return function

        return register


def _check_runnable(function: Callable[..., Any], kind: str, atomic: bool) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"{kind}: a generator function would never run; do not yield")
    if atomic and inspect.iscoroutinefunction(function):
        raise ConfigurationError(
            f"{kind}: atomic=True needs a synchronous handler, because Django's transactions do not work in "
            "async code; write def, or take the transaction yourself inside sync_to_async"
        )


def _payload_signature(function: Callable[..., Any], kind: str) -> inspect.Signature:
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ConfigurationError(
                f"{kind}: parameter {parameter.name!r} is positional-only; jobs are called by name"
            )
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise ConfigurationError(f"{kind}: *{parameter.name} cannot be called by name; take a list")
    return signature.replace(
        parameters=[parameter for name, parameter in signature.parameters.items() if name != CONTEXT]
    )


def _flat(bound: inspect.BoundArguments) -> dict[str, Any]:
    arguments = dict(bound.arguments)
    for parameter in bound.signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments.update(arguments.pop(parameter.name, {}))
    return arguments


def enqueue_many(envelopes: Sequence[Envelope]) -> list[Job]:
    """Store up to 1,000 jobs and 16 MiB, all or none: ``enqueue_many([welcome.envelope(user_id=1), …])``.

    Raises InvalidJob naming the item, IdConflict, Quarantined or QueueFull, always before any write.
    """
    return enqueue(envelopes)


async def aenqueue_many(envelopes: Sequence[Envelope]) -> list[Job]:
    """``enqueue_many`` for async code."""
    return await sync_to_async(enqueue, thread_sensitive=True)(envelopes)
