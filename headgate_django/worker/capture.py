"""What a run logs, kept with its attempt: the first and the last part of it, whatever is logged.

One handler on the root logger writes into the buffer that is bound to the current context, if there is one. It
sees what the project's own configuration lets through to the root logger.
"""

from __future__ import annotations

import logging
import threading
import time
from contextvars import ContextVar, Token
from types import TracebackType

from headgate_django.core.text import storable

OWN = "headgate_django"
_SLICE = 65_536


class Capture:
    """Binds a buffer of at most ``limit_bytes`` while it lasts: ``with Capture(16_384) as log: …; log.text``.

    It follows the handler into asyncio tasks and ``sync_to_async``, not into threads of its own making.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._head_limit = limit_bytes // 4
        self._tail_limit = limit_bytes - self._head_limit
        self._head, self._tail = bytearray(), bytearray()
        self._size = 0
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._token: Token[Capture | None] | None = None

    def __enter__(self) -> Capture:
        if self._tail_limit:
            install()
            self._token = _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _current.reset(self._token)

    @property
    def text(self) -> str:
        """Everything, or the beginning and the end and how many bytes are missing between them."""
        if not self._size:
            return ""
        with self._lock:
            head, tail = bytes(self._head), bytes(self._tail[-self._tail_limit :]) if self._tail_limit else b""
            left_out = self._size - len(head) - len(tail)
        if not left_out:
            return (head + tail).decode("utf-8", "ignore")
        # A character that is cut in two is left out as well.
        return f"{head.decode('utf-8', 'ignore')}\n… {left_out} bytes left out …\n{tail.decode('utf-8', 'ignore')}"

    def write(self, text: str) -> None:
        """Add one entry. A long one is taken in slices, so that it never needs its size again."""
        for start in range(0, len(text), _SLICE):
            self._add(storable(text[start : start + _SLICE]).encode())
        self._add(b"\n")

    def prefix(self) -> str:
        """How long the run has lasted."""
        return f"+{time.monotonic() - self._started:.3f}s"

    def _add(self, data: bytes) -> None:
        with self._lock:
            self._size += len(data)
            room = self._head_limit - len(self._head)
            if room > 0:
                self._head += data[:room]
                data = data[room:]
            self._tail += data
            if len(self._tail) > 2 * self._tail_limit:
                del self._tail[: -self._tail_limit]


_current: ContextVar[Capture | None] = ContextVar("headgate_django_capture", default=None)


def capture(limit_bytes: int) -> Capture:
    """Keep what is logged in the current context; 0 keeps nothing."""
    return Capture(limit_bytes)


def install() -> None:
    """Put the one handler on the root logger, unless it is there: a later ``dictConfig`` may have removed it."""
    root = logging.getLogger()
    if _handler not in root.handlers:
        root.addHandler(_handler)


class _Handler(logging.Handler):
    def handle(self, record: logging.LogRecord) -> bool:
        """Without the handler's lock: each buffer has its own, so that runs do not wait for each other."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record into the buffer of the run that logs it."""
        log = _current.get()
        if log is not None and record.name.split(".", 1)[0] != OWN:
            log.write(f"{log.prefix()} {record.levelname} {record.name}: {_text(record)}")
        _last_resort(record)


def _text(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
        if record.exc_info:
            # Not cached on the record, as formatters do: another handler may want it in another form.
            text += "\n" + (record.exc_text or _formatter.formatException(record.exc_info))
        if record.stack_info:
            text += "\n" + str(record.stack_info)
    except Exception as error:
        return f"<a record that cannot be formatted: {type(error).__name__}>"
    return text


def _last_resort(record: logging.LogRecord) -> None:
    """Without a handler Python writes warnings to stderr. Ours must not count as one."""
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None:
        if any(handler is not _handler for handler in logger.handlers):
            return
        logger = logger.parent if logger.propagate else None
    if logging.lastResort is not None and record.levelno >= logging.lastResort.level:
        logging.lastResort.handle(record)


_formatter = logging.Formatter()
_handler = _Handler()
