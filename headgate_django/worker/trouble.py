"""Database trouble: back off with jitter, say so once, go on when it is over. No worker dies of its statements."""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from django.conf import settings
from django.db import connections, reset_queries

from headgate_django.models.store import CANCELLED, error_code, is_connection_trouble, is_contention

logger = logging.getLogger("headgate_django.worker")

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
LONGEST_OWN_PAUSE = 30.0
FLOOR = 0.05
"""Shortest wait between two rounds while some statement fails by itself, so that its retries are no busy loop."""
QUIET_SECONDS = 1.0
"""Nothing is reported so soon after the last report, unless it still lasts then."""
GIVE_UP_STEP = 0.1
_DATABASE = ""  # what is said about the database itself, not about one kind of statement


class Pause:
    """Grows with each failure in a row."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._length = 0.0
        self._until = 0.0

    @property
    def remaining(self) -> float:
        """Seconds that are left of it."""
        return max(0.0, self._until - time.monotonic())

    def grow(self) -> None:
        """Begin the next one, twice as long, with jitter."""
        self._length = min(self._longest, max(FIRST_PAUSE, self._length * 2))
        self._until = time.monotonic() + self._length * random.uniform(0.5, 1.0)

    def end(self) -> None:
        """Begin anew at the next failure."""
        self._length = self._until = 0.0


class Trouble:
    """Guards a thread's own statements. One instance per thread and connection.

    Trouble of the database (lost, read-only, full, locked) pauses all statements, and is over when each kind that
    failed has worked again. A kind that fails by itself, by a mistake in it or by a lock, is paused alone.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._outage = Pause(LONGEST_PAUSE)
        self._failing: set[str] = set()
        self._own: dict[str, Pause] = {}
        self._quiet_until = 0.0
        self._said: dict[str, str] = {}
        self._shown: set[tuple[str, str]] = set()

    @property
    def pausing(self) -> float:
        """Seconds until the database is tried again; 0 when there is no trouble with it."""
        return self._outage.remaining

    @property
    def floor(self) -> float:
        """Shortest time to wait before the next round: 0, or a little while some statement fails by itself."""
        return FLOOR if self._own else 0.0

    def pausing_for(self, what: str) -> float:
        """Seconds until statements of this kind are tried again."""
        own = self._own.get(what)
        return max(self.pausing, own.remaining if own else 0.0)

    def guard(self, what: str, work: Callable[[], T]) -> T | None:
        """Run ``work``; None when it fails or is given a pause. ``what`` names its kind: ``renew leases``."""
        if self.pausing_for(what):
            return None
        try:
            result = work()
        except Exception as error:
            self._drop_connection()
            if is_outage(error):
                self._note_outage(what, error)
            else:
                self._note_own(what, error)
            return None
        finally:
            if settings.DEBUG:
                reset_queries()  # this thread serves no requests, whose beginning would do it
        self._note_success(what)
        return result

    def insist(self, what: str, work: Callable[[], T], give_up: Callable[[], bool]) -> T | None:
        """Run ``work`` until the database lets it; None when ``give_up()`` came first.

        For what must be done before anything else. An error that is no trouble of the database is raised.
        """
        while not give_up():
            if self.pausing_for(what):
                time.sleep(min(self.pausing_for(what), GIVE_UP_STEP))
                continue
            try:
                result = work()
            except Exception as error:
                self._drop_connection()
                if not is_connection_trouble(error):
                    raise
                self._note_outage(what, error)
            else:
                self._note_success(what)
                return result
        return None

    def _drop_connection(self) -> None:
        # Whatever state it is in, nothing meets it again; one that cannot be closed is forgotten all the same.
        with contextlib.suppress(Exception):
            connections[self._using].close()

    def _note_outage(self, what: str, error: Exception) -> None:
        self._failing.add(what)
        self._outage.grow()
        if self._is_news(_DATABASE, describe(error)):
            logger.warning("cannot %s: %s; trying again with growing pauses", what, describe(error))

    def _note_own(self, what: str, error: Exception) -> None:
        self._own.setdefault(what, Pause(LONGEST_OWN_PAUSE)).grow()
        reason = describe(error)
        if not self._is_news(what, reason):
            return
        if is_connection_trouble(error) or (what, reason) in self._shown:
            logger.warning("cannot %s: %s; trying again with growing pauses", what, reason)
        else:
            self._shown.add((what, reason))
            logger.error("cannot %s; trying again with growing pauses", what, exc_info=error)

    def _note_success(self, what: str) -> None:
        if self._own.pop(what, None) and self._said.pop(what, None):
            logger.info("can %s again", what)
        if what not in self._failing:
            return
        self._failing.remove(what)
        if not self._failing:
            self._outage.end()
            if self._said.pop(_DATABASE, None):
                logger.warning("the database answers again")

    def _is_news(self, about: str, reason: str) -> bool:
        now = time.monotonic()
        if self._said.get(about) == reason or now < self._quiet_until:
            return False
        self._quiet_until = now + QUIET_SECONDS
        self._said[about] = reason
        return True


def is_outage(error: Exception) -> bool:
    """Whether the database is in trouble for every statement, not only for the one that failed."""
    if error_code(error).startswith("SQLITE"):
        return is_connection_trouble(error)  # a lock is on the whole file
    own = error_code(error) == CANCELLED or (is_contention(error) and bool(error_code(error)))
    return is_connection_trouble(error) and not own


def describe(error: Exception) -> str:
    """The class and the code: a driver's message may carry the connection string."""
    return f"{type(error).__name__} {error_code(error)}".rstrip()
