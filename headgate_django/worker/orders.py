"""What a worker process has been told: by its supervisor, by signals, and through its row in the register."""

from __future__ import annotations

import time
from collections.abc import Callable

from headgate_django.core.commands import Command, Status

DONE = 0
RECYCLE = 75
"""Exit code of a process that wants to be replaced by a fresh one (EX_TEMPFAIL)."""


class Orders:
    """Flags that any thread and signal handler may set, and the runtime reads. No locks, no I/O but ``wake``."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._wake: Callable[[], None] = lambda: None
        self._on_resign: Callable[[], None] = lambda: None
        self._stop_at: float | None = None
        self._stopping = False
        self._forced = False
        self._quiet = False
        self._dump = False
        self._for_good = False
        self.unwritten = False
        """Whether this process ends without having written all that has to be written."""

    def on_wake(self, wake: Callable[[], None]) -> None:
        """Whom to wake when something was ordered."""
        self._wake = wake

    def on_resign(self, resign: Callable[[], None]) -> None:
        """What to do when the duties are to be given up."""
        self._on_resign = resign

    @property
    def stopping(self) -> bool:
        """Whether to admit nothing more, and to end when nothing runs."""
        return self._stopping

    @property
    def admitting(self) -> bool:
        """Whether new work may be admitted."""
        return not (self._stopping or self._quiet)

    @property
    def is_quiet(self) -> bool:
        """Whether it was told to admit nothing more for now."""
        return self._quiet

    @property
    def overdue(self) -> bool:
        """Whether to give back what still runs, now."""
        return self._forced or (self._stop_at is not None and self.remaining <= 0)

    @property
    def remaining(self) -> float:
        """Seconds until what still runs is given back; infinite while there is no such limit."""
        return float("inf") if self._stop_at is None else self._stop_at - time.monotonic()

    @property
    def forced(self) -> bool:
        """Whether to end at once."""
        return self._forced

    @property
    def exit_code(self) -> int:
        """What to tell the supervisor at the end: done, or replace me."""
        return RECYCLE if self._stopping and not self._for_good else DONE

    @property
    def status(self) -> Status:
        """What the register says."""
        if self._stopping:
            return Status.STOPPING if self._for_good else Status.RESTARTING
        return Status.QUIET if self._quiet else Status.RUNNING

    def stop(self, *, for_good: bool = True) -> None:
        """Finish what runs within the shutdown timeout, then end. Asking again changes nothing.

        Not ``for_good``: somebody signalled this process alone, so its supervisor may replace it.
        """
        self._for_good = self._for_good or for_good
        self._stopping = True
        if self._stop_at is None:
            self._stop_at = time.monotonic() + self._timeout
        self._wake()

    def stop_now(self) -> None:
        """Give everything back and end."""
        self.stop()
        self._forced = True
        self._wake()

    def recycle(self) -> None:
        """Finish what runs, without a limit, then be replaced."""
        self._stopping = True
        self._wake()

    def quiet(self) -> None:
        """Admit nothing more for now."""
        self._quiet = True
        self._wake()

    def dump(self) -> None:
        """Write down where the handlers are."""
        self._dump = True
        self._wake()

    def take_dump(self) -> bool:
        """Whether a dump was asked for since the last call."""
        asked, self._dump = self._dump, False
        return asked

    def obey(self, command: Command) -> None:
        """Do what the row says."""
        match command:
            case Command.QUIET:
                self.quiet()
            case Command.RESUME:
                self._quiet = False
            case Command.RESTART:
                self._quiet = False  # the fresh process is to work
                self.recycle()
            case Command.TERMINATE:
                self.stop()
            case Command.RESIGN:
                self._on_resign()
        self._wake()
