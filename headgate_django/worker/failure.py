"""From an exception to bounded text, which alone travels and is stored; and what becomes of a job without room."""

from __future__ import annotations

import hashlib
import traceback

from headgate_django.core.outcomes import Failure, Outcome
from headgate_django.core.states import Event
from headgate_django.core.text import bounded, storable

MAX_CLASS = 255
MAX_MESSAGE = 4_096
MAX_TRACEBACK = 16_384
MAX_FRAMES = 64
MAX_GROUP_MEMBERS = 15

NO_ROOM_DELAY_MS = 5_000


def describe(error: BaseException) -> Failure:
    """What to store of an exception: class path, message, traceback, and a key that groups equal failures."""
    return Failure(
        error_class=class_path(type(error)),
        message=bounded(_message(error), MAX_MESSAGE),
        traceback=bounded(_traceback(error), MAX_TRACEBACK),
        group=_group(error),
    )


def no_room(error_class: str, message: str, group: str) -> Outcome:
    """There is no room to run it here: the job waits a while, at no cost, since its handler was not called."""
    failure = Failure(error_class=error_class, message=bounded(message, MAX_MESSAGE), group=group)
    return Outcome(event=Event.SNOOZE, delay_ms=NO_ROOM_DELAY_MS, failure=failure)


def class_path(error_type: type[BaseException]) -> str:
    """``package.module.Class``; builtins go without their module."""
    name = error_type.__qualname__
    return storable(name if error_type.__module__ == "builtins" else f"{error_type.__module__}.{name}")[:MAX_CLASS]


def _message(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except BaseException as failure:  # a broken __str__ must not hide that the job failed
        return f"<{type(error).__name__} whose message raised {type(failure).__name__}>"


def _traceback(error: BaseException) -> str:
    try:
        formatted = traceback.TracebackException.from_exception(
            error, limit=-MAX_FRAMES, max_group_width=MAX_GROUP_MEMBERS
        )
        # Piece by piece: one message may have 100 MB.
        return "".join(bounded(piece, MAX_TRACEBACK) for piece in formatted.format())
    except BaseException as failure:
        return f"<traceback could not be formatted: {type(failure).__name__}>"


def _group(error: BaseException) -> str:
    # The place that raised, not the message: messages carry ids, and each would be its own group.
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    place = f"{frames[-1].filename}:{frames[-1].name}" if frames else ""
    return hashlib.sha256(f"{class_path(type(error))}\n{place}".encode("utf-8", "replace")).hexdigest()[:16]
