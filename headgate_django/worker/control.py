"""The thread of a worker process that talks to its supervisor: orders one way, signs of life the other."""

from __future__ import annotations

import contextlib
import logging
import select
import threading
from collections.abc import Callable

from headgate_django.worker.cells import Cells
from headgate_django.worker.channel import Channel, Closed, Message
from headgate_django.worker.orders import Orders

logger = logging.getLogger("headgate_django.worker")

PULSE_SECONDS = 1.0


class Control:
    """Obeys the supervisor. Without one, a process whose supervisor was killed drains and ends."""

    def __init__(self, channel: Channel, orders: Orders) -> None:
        self._channel = channel
        self._orders = orders
        self.cells = Cells(channel)
        self._is_serving: Callable[[], bool] = lambda: False

    def start(self) -> None:
        """Begin. Called in the process itself: a thread that was made before a fork cannot be started after it."""
        threading.Thread(target=self._work, name="headgate-control", daemon=True).start()

    def ready(self, line: str, is_serving: Callable[[], bool]) -> None:
        """Tell the supervisor that this process admits now. ``is_serving`` is asked for each sign of life."""
        self._is_serving = is_serving
        with contextlib.suppress(Closed):
            self._channel.send({"t": "ready", "line": line})

    def _work(self) -> None:
        try:
            while True:
                ready, _, _ = select.select([self._channel], [], [], PULSE_SECONDS)
                if ready:
                    for message in self._channel.receive_ready():
                        self._do(message)
                else:
                    self._channel.send({"t": "pulse", "serving": self._is_serving()})
        except Closed:
            logger.warning("the supervisor is gone; finishing what runs")
            self._orders.stop()

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
