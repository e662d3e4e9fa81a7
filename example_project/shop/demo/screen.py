"""What a person reads: messages, and one line that changes (or, in a file, one line for each change)."""

from __future__ import annotations

import shutil

from django.core.management.base import OutputWrapper

CLEAR = "\r\033[K"


class Screen:
    """Standard output, with a status line at the bottom when it is a terminal."""

    def __init__(self, stdout: OutputWrapper) -> None:
        self._stdout = stdout
        self._live = stdout.isatty()
        self._last = ""

    def say(self, text: str = "") -> None:
        """A line that stays."""
        if self._live and self._last:
            self._write(CLEAR)
        self._stdout.write(text)
        if self._live and self._last:
            self._write(self._fitting())

    def show(self, status: str) -> None:
        """The status line."""
        if status == self._last:
            return
        self._last = status
        if self._live:
            self._write(CLEAR + self._fitting())
        else:
            self._stdout.write(status)
            self._stdout.flush()

    def end(self) -> None:
        """Leave the status line."""
        if self._live and self._last:
            self._stdout.write("")
        self._last = ""

    def _fitting(self) -> str:
        # A line that wraps could not be cleared again.
        return self._last[: shutil.get_terminal_size().columns - 1]

    def _write(self, text: str) -> None:
        self._stdout.write(text, ending="")
        self._stdout.flush()
