"""The thread of a worker process that talks to its supervisor: orders one way, signs of life the other."""

from __future__ import annotations

import contextlib
import logging
import selectors
import threading
import time
from collections.abc import Callable

from headgate_django.worker.cells import Cells
from headgate_django.worker.channel import Channel, Closed, Message
from headgate_django.worker.orders import Orders

logger = logging.getLogger("headgate_django.worker")

PULSE_SECONDS = 1.0

FAREWELL_SECONDS = 1.0
"""How long a process that ends waits for a supervisor that does not read."""


class Control:
    """Obeys the supervisor. Without one, a process whose supervisor was killed drains and ends."""

    def __init__(self, channel: Channel, orders: Orders) -> None:
        self._channel = channel
        self._orders = orders
        self.cells = Cells(channel)
        self._is_serving: Callable[[], bool] = lambda: False
        self._is_waiting: Callable[[], bool] = lambda: False

    def start(self) -> None:
        """Begin. Called in the process itself: a thread that was made before a fork cannot be started after it."""
        threading.Thread(target=self._work, name="headgate-control", daemon=True).start()

    def entering(self, is_waiting: Callable[[], bool]) -> None:
        """Tell the supervisor that this process needs the database now. ``is_waiting``: whether that is away."""
        self._is_waiting = is_waiting
        with contextlib.suppress(Closed):
            self._channel.post({"t": "entering"})

    def ready(self, line: str, is_serving: Callable[[], bool]) -> None:
        """Tell the supervisor that this process admits now. ``is_serving`` is asked for each sign of life."""
        self._is_serving = is_serving
        with contextlib.suppress(Closed):
            self._channel.post({"t": "ready", "line": line})

    def farewell(self, code: int) -> None:
        """Tell the supervisor that this process ends in order. The exit code alone may be a handler's doing."""
        end = time.monotonic() + FAREWELL_SECONDS
        with contextlib.suppress(Closed):
            self._channel.post(
                {"t": "bye", "code": code, "quiet": self._orders.is_quiet, "unwritten": self._orders.unwritten}
            )
            while self._channel.congested and time.monotonic() < end:
                time.sleep(0.01)
                self._channel.flush()

    def _work(self) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._channel, selectors.EVENT_READ)
                self._converse(selector)
        except Closed:
            logger.warning("the supervisor is gone; finishing what runs")
            self.cells.orphan()
            self._orders.stop()

    def _converse(self, selector: selectors.BaseSelector) -> None:
        next_pulse = time.monotonic() + PULSE_SECONDS
        while True:
            if selector.select(max(0.0, next_pulse - time.monotonic())):
                for message in self._channel.receive_ready():
                    self._do(message)
            if time.monotonic() >= next_pulse:
                next_pulse = time.monotonic() + PULSE_SECONDS
                self._pulse()

    def _pulse(self) -> None:
        if self._channel.congested:  # it does not read: more of the same would not help
            self._channel.flush()
            return
        state = {"serving": self._is_serving(), "waiting": self._is_waiting(), "quiet": self._orders.is_quiet}
        self._channel.post({"t": "pulse", **state})

    def _do(self, message: Message) -> None:
        match message["t"]:
            case "stop":
                self._orders.stop()
            case "stop now":
                self._orders.stop_now()
            case "quiet":
                self._orders.quiet()
            case "recycle":
                logger.info("asked to be replaced: %s", message["because"])
                self._orders.recycle()
            case "dump":
                self._orders.dump()
            case "spawned" | "exited":
                self.cells.hear(message)
