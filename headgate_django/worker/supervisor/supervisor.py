"""The supervisor's loop: start what is missing, hear the children, reap the dead, obey signals."""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from math import inf

from headgate_django.models.store import alias
from headgate_django.worker import memory
from headgate_django.worker.channel import Closed, Garbled, Message
from headgate_django.worker.death import Death
from headgate_django.worker.options import WorkerOptions
from headgate_django.worker.orders import DONE
from headgate_django.worker.process import load, ready_line
from headgate_django.worker.supervisor.cellhouse import CellHouse, close
from headgate_django.worker.supervisor.child import Child
from headgate_django.worker.supervisor.funerals import Funerals
from headgate_django.worker.supervisor.health import Health
from headgate_django.worker.supervisor.inbox import Inbox
from headgate_django.worker.supervisor.nursery import Nursery
from headgate_django.worker.supervisor.reaper import Reaper
from headgate_django.worker.supervisor.slot import Slot
from headgate_django.worker.supervisor.undertaker import UNWRITTEN, Report
from headgate_django.worker.supervisor.verdict import verdict

logger = logging.getLogger("headgate_django.worker")

TICK_SECONDS = 0.5
LAST_RESORT_SECONDS = 10.0
"""How much longer than the shutdown timeout a child may take before it is killed."""

FAULT_SECONDS = 0.1

GIVE_UP_AFTER = 6
"""Processes in a row, in each slot, that ended before they were ready."""


class Supervisor:
    """Keeps N worker processes alive until it is told to stop."""

    def __init__(self, options: WorkerOptions, inbox: Inbox, announce: Callable[[str], None]) -> None:
        self._options = options
        self._inbox = inbox
        self._announce = announce
        self._selector = selectors.DefaultSelector()
        self._selector.register(inbox, selectors.EVENT_READ)
        self._slots = [Slot(number) for number in range(1, options.processes + 1)]
        self._nursery = Nursery(options, inbox, self._close_in_child)
        self._cells = CellHouse(self._nursery)
        self._funerals = Funerals(self._nursery, options.lease)
        self._orders: deque[tuple[Child, Message]] = deque()
        self._health = Health(options, self._selector)
        self._announced = False
        self._stop_by: float | None = None
        self._forced = False
        self._failed = False
        self._reaper = Reaper()
        self._last_tick = self._next_look = time.monotonic()

    def run(self) -> int:
        """Serve until the end; the exit code. Raises ConfigurationError when a jobs module cannot be imported."""
        load()
        self._inbox.install()
        self._nursery.settle()
        self._health.open()
        try:
            while not self._ended():
                for step in (self._fill_slots, self._listen, self._obey_signals, self._reap, self._look_after):
                    self._guard(step)
        finally:
            self._health.close()
            self._selector.close()
        return 1 if self._failed else 0

    def _guard(self, step: Callable[[], object]) -> None:
        # Whatever goes wrong here must not leave the children without anybody who reports and replaces them.
        try:
            step()
        except Exception:
            logger.exception("a fault of the supervisor, which goes on")
            time.sleep(FAULT_SECONDS)

    @property
    def _children(self) -> list[Child]:
        return [slot.child for slot in self._slots if slot.child is not None]

    def _slot_of(self, child: Child) -> Slot:
        return next(slot for slot in self._slots if slot.child is child)

    @property
    def _stopping(self) -> bool:
        return self._stop_by is not None

    def _ended(self) -> bool:
        if self._children or len(self._funerals) or len(self._cells):
            return False
        return self._stopping or self._failed or all(slot.done for slot in self._slots)

    def _pause(self) -> float:
        waits = [slot.wait for slot in self._slots] if not (self._stopping or self._funerals.awaited) else []
        return min([self._cells.pause(TICK_SECONDS), *waits])

    def _listen(self) -> None:
        for key, _ in self._selector.select(self._pause()):
            if key.data is not None:
                self._guard(key.data)
        self._work_off()

    def _work_off(self) -> None:
        while self._orders:
            self._guard(partial(self._do, *self._orders.popleft()))

    # Children

    def _fill_slots(self) -> None:
        for slot in self._slots:
            if slot.due and not (self._stopping or self._failed or self._funerals.awaited):
                try:
                    child = self._nursery.start_child(slot.worker_id(self._options.name), quiet=slot.quiet)
                except OSError as error:
                    logger.error("cannot start a process: %s", error)
                    slot.postpone()
                    continue
                slot.child = child
                self._selector.register(child.channel, selectors.EVENT_READ, lambda child=child: self._hear(child))

    def _hear(self, child: Child) -> bool:
        """Whether it had something to say."""
        try:
            messages = child.channel.receive_ready()
        except Closed as error:
            if child.channel.fileno() in self._selector.get_map():
                self._selector.unregister(child.channel)
            if isinstance(error, Garbled):
                self._kill(child, "one of its jobs has written into our channel", blameless=False)
            return False  # else it is ending; its death is noticed by reaping it
        child.heard = time.monotonic()
        self._orders.extend((child, message) for message in messages)
        return bool(messages)

    def _do(self, child: Child, message: Message) -> None:
        match message["t"]:
            case "ready":
                child.ready_line, child.serving = message["line"], True
                logger.debug("process %d: %s", child.pid, child.ready_line)
                self._next_look = 0.0  # what is told about health is true at once
                self._announce_once()
            case "entering":
                child.entering = True
            case "pulse":
                child.pulsed(serving=message["serving"], waiting=message["waiting"])
                self._slot_of(child).quiet = message["quiet"]
            case "bye":
                child.says_goodbye(message["code"], unwritten=message["unwritten"])
                self._slot_of(child).quiet = message["quiet"]
            case "spawn":
                self._cells.start(child, message)
            case "kill":
                self._cells.kill(child, message["token"], message["because"])

    def _announce_once(self) -> None:
        if not self._announced and all(slot.done or (slot.child and slot.child.ready) for slot in self._slots):
            self._announced = True
            self._announce(ready_line(self._options, self._options.name, self._options.database or alias()))
            self._health.started()

    # The dead

    def _reap(self) -> None:
        for pid, status, oom in self._reaper.collect():
            self._bury(pid, status, oom)

    def _bury(self, pid: int, status: int, oom: bool) -> None:
        if self._funerals.ended(pid) or self._cells.ended(pid, status, oom):
            return
        for slot in self._slots:
            if slot.child is not None and slot.child.pid == pid:
                self._child_ended(slot, slot.child, status, oom)
                return

    def _child_ended(self, slot: Slot, child: Child, status: int, oom: bool) -> None:
        death = Death.from_status(status, rss=child.rss, oom=oom, because=child.because)
        child.dead = True
        self._drain(child)
        innocent = self._cells.orphaned(child)
        child.channel.close()
        if child.farewell is not None:
            if death.code != child.farewell:
                logger.warning("process %d (%s) had said goodbye: %s", child.pid, child.worker_id, death)
            slot.leave(for_good=child.farewell == DONE)
            if child.unwritten:
                self._funerals.hold(Report(child.worker_id, UNWRITTEN, innocent, is_crash=False))
            return
        pause = slot.replace_after(child)
        when = "" if self._stopping else f"; replaced in {pause:.1f} s" if pause else "; replaced now"
        state = "" if child.ready else " before it was ready"
        logger.error("process %d (%s) died%s: %s%s", child.pid, child.worker_id, state, death, when)
        if not child.ready:
            self._consider_giving_up()  # it has claimed nothing
            return
        cause = death.failure("worker process")
        self._funerals.hold(Report(child.worker_id, cause, innocent, is_crash=not child.blameless))

    def _consider_giving_up(self) -> None:
        if all(each.never_ready >= GIVE_UP_AFTER for each in self._slots):
            logger.critical("%d processes in a row ended before they were ready; giving up", GIVE_UP_AFTER)
            self._failed = True
            self._stop(force=True)

    def _drain(self, child: Child) -> None:
        # What it had said before it died still counts.
        if child.channel.fileno() in self._selector.get_map():
            while self._hear(child):
                self._work_off()
        if child.channel.fileno() in self._selector.get_map():
            self._selector.unregister(child.channel)

    # Orders from outside

    def _obey_signals(self) -> None:
        for number in self._inbox.take():
            self._guard(partial(self._obey, number))

    def _obey(self, number: signal.Signals) -> None:
        if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._stop(force=self._stopping)
        elif number == signal.SIGQUIT:
            self._stop(force=True)
            for child in self._children:
                self._kill(child, "SIGQUIT", blameless=True)
        elif number in (signal.SIGTSTP, signal.SIGUSR1):
            logger.info("quiet: nothing more is admitted")
            for slot in self._slots:
                slot.quiet = True
            self._tell_all("quiet")
        elif number == signal.SIGUSR2:
            self._tell_all("dump")

    def _stop(self, *, force: bool) -> None:
        self._forced = self._forced or force
        grace = 0.0 if force else self._options.shutdown_timeout / 1000
        # Asked again and again, it may be sooner, but never later.
        self._stop_by = min(self._stop_by or inf, time.monotonic() + grace + LAST_RESORT_SECONDS)
        self._health.stopping()
        self._tell_all("stop now" if self._forced else "stop")

    def _tell_all(self, order: str) -> None:
        for child in self._children:
            child.tell({"t": order})

    # Care

    def _look_after(self) -> None:
        now = time.monotonic()
        if now - self._last_tick > 4 * TICK_SECONDS:
            # We were stopped ourselves: how long the others have been silent is not known.
            for child in self._children:
                child.heard = now
        self._last_tick = now
        self._cells.enforce_limits()
        self._funerals.look_again()
        if now < self._next_look:
            return
        self._next_look = now + TICK_SECONDS
        if self._stop_by is not None and now > self._stop_by:
            self._funerals.give_up()
        for child in self._children:
            child.remind()
            self._look_at(child, now)
        self._health.beat(self._children, len(self._slots), stopping=self._stopping)

    def _look_at(self, child: Child, now: float) -> None:
        child.rss = memory.rss(child.pid) or child.rss
        if doom := verdict(child, now, self._stop_by, self._options):
            self._kill(child, doom[0], blameless=doom[1])
        elif 0 < self._options.max_memory < child.rss and not child.recycling:
            child.recycling = True
            child.tell({"t": "recycle", "because": f"{memory.megabytes(child.rss)} resident"})

    def _kill(self, child: Child, because: str, *, blameless: bool) -> None:
        child.because, child.blameless = because, blameless
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)

    def _close_in_child(self) -> None:
        self._selector.close()
        self._health.close_in_child()
        for child in self._children:
            child.channel.close()
        for _, order in self._orders:
            close(order)
