"""What all handlers of a process share: working directory, environment, locale. Put back when nobody runs.

While other handlers run they are left alone: one of them may be about to put back itself what it has changed.
"""

from __future__ import annotations

import contextlib
import locale
import logging
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

logger = logging.getLogger("headgate_django.worker")


class Surroundings:
    """What stood before the first of the handlers that run now was called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._folder = ""
        self._environment: dict[Any, Any] = {}
        self._locale = ""

    @contextlib.contextmanager
    def shared(self, who: str) -> Iterator[None]:
        """While a handler runs. The last one to leave puts things back, and is named in the warning."""
        self.enter()
        try:
            yield
        finally:
            self.leave(who)

    def enter(self) -> None:
        """From now on handlers may run, until as many have left."""
        with self._lock:
            if not self._running:
                self._remember()
            self._running += 1

    def leave(self, who: str) -> None:
        """One has ended."""
        with self._lock:
            self._running -= 1
            if not self._running:
                self._restore(who)

    def _remember(self) -> None:
        self._folder = _folder()
        self._environment = dict(_variables())
        self._locale = locale.setlocale(locale.LC_ALL)

    def _restore(self, who: str) -> None:
        changed = []
        if self._folder and _folder() != self._folder:
            with contextlib.suppress(OSError):
                os.chdir(self._folder)
            changed.append("the working directory")
        if _variables() != self._environment:
            changed.append("environment variables " + ", ".join(_restore_environment(self._environment)))
        if locale.setlocale(locale.LC_ALL) != self._locale:
            with contextlib.suppress(locale.Error):
                locale.setlocale(locale.LC_ALL, self._locale)
            changed.append("the locale")
        if changed:
            logger.warning("put back %s: changed by %s or a job that ran beside it", " and ".join(changed), who)


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # somebody has deleted it
        return ""


def _variables() -> dict[Any, Any]:
    # The dict inside compares fifty times faster than the mapping around it, and this happens at every job.
    inner = getattr(os.environ, "_data", None)
    return inner if isinstance(inner, dict) else dict(os.environ)


def _restore_environment(before: dict[Any, Any]) -> list[str]:
    """Undo all changes; the names of what was changed."""
    after = _variables()
    names = sorted(_name(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    values = {_name(key): _name(value) for key, value in before.items()}
    for name in names:
        if name in values:
            os.environ[name] = values[name]
        else:
            os.environ.pop(name, None)
    if "TZ" in names and hasattr(time, "tzset"):
        time.tzset()
    return names


def _name(value: Any) -> str:
    return os.fsdecode(value)


surroundings = Surroundings()
