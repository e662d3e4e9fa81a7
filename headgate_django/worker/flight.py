"""The jobs in the air: where each runs, and how many slots are free."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from types import FrameType

from headgate_django.core.outcomes import Claim, Outcome
from headgate_django.worker.cells import Cells
from headgate_django.worker.executors.isolated import IsolatedExecutor
from headgate_django.worker.executors.loop import LoopExecutor
from headgate_django.worker.executors.threads import ThreadExecutor, perform_here
from headgate_django.worker.failure import no_room
from headgate_django.worker.run import Place, Results, Run, place_of
from headgate_django.worker.surroundings import surroundings

logger = logging.getLogger("headgate_django.worker")


class Flight:
    """Starts runs in the executor that fits, and reaches them there."""

    def __init__(self, size: int, wake: Callable[[], None], cells: Cells | None, using: str) -> None:
        self._size = size
        self._using = using
        self.results = Results(wake)
        self.running: set[Run] = set()
        self.stuck: set[Run] = set()
        self._isolated = IsolatedExecutor(cells) if cells else None
        self._threads = ThreadExecutor(size, self.results, self._perform)
        self._loop = LoopExecutor(self.results)
        self._on_loop = 0

    @property
    def free(self) -> int:
        """Slots that are neither used nor written off."""
        return self._size - len(self.running) - len(self.stuck)

    @property
    def has_cells(self) -> bool:
        """Whether one of them runs in a process of its own."""
        return any(run.place is Place.CELL for run in self.running)

    @property
    def landed(self) -> bool:
        """Whether everything that runs has finished, and only waits to be collected."""
        return len(self.results) >= max(1, len(self.running))

    def start(self, claim: Claim) -> None:
        """Run the claim's handler."""
        run = Run(claim, place_of(claim, cells=self._isolated is not None))
        self.running.add(run)
        if run.place is not Place.CELL:
            # Held for the whole flight: to look at them once for a batch costs a tenth of once for each job.
            surroundings.enter()
        if run.place is Place.LOOP:
            # Each of these has a connection of its own, and an idle thread may keep one: no more than the slots.
            self._on_loop += 1
            self._threads.shrink(self._size - self._on_loop)
        try:
            (self._loop if run.place is Place.LOOP else self._threads).submit(run)
        except Exception as error:  # no thread can be started, or no event loop for want of descriptors
            self.results.put(run, no_room("NoThread", str(error), "no-thread"))

    def collect(self) -> list[tuple[Run, Outcome]]:
        """What has finished since the last call. A stuck run that came back only frees its slot."""
        finished = self.results.take()
        for run, _ in finished:
            self.running.discard(run)
            self.stuck.discard(run)
            self._on_loop -= run.place is Place.LOOP
            if run.place is not Place.CELL:
                surroundings.leave(f"job {run.claim.id} ({run.claim.kind})")
        return finished

    def abandon(self, run: Run) -> None:
        """Write the slot off: the handler does not stop."""
        self.running.discard(run)
        self.stuck.add(run)
        run.abandoned = True

    def cancel(self, run: Run, interrupt: bool) -> None:
        """Ask the handler to stop; its context says why. With ``interrupt``, also raise Interrupted in it."""
        if run.place is Place.LOOP:
            self._loop.cancel(run)
        elif run.place is Place.CELL and self._isolated:
            self._isolated.cancel(run, interrupt)
        elif interrupt:
            run.interruptible.interrupt()

    def kill(self, run: Run) -> None:
        """End the process of a run that has one of its own."""
        if run.place is Place.CELL and self._isolated:
            self._isolated.kill(run)

    def dump(self) -> None:
        """Log where each running handler is."""
        frames = sys._current_frames()
        for run in (*self.running, *self.stuck):
            claim = run.claim
            if run.place is Place.CELL and self._isolated:
                logger.warning("job %s (%s) runs in a process of its own, which says:", claim.id, claim.kind)
                self._isolated.dump(run)
                continue
            stack = self._loop.stack(run) if run.place is Place.LOOP else _stack(frames, run)
            logger.warning("job %s (%s) is at:\n%s", claim.id, claim.kind, stack)

    def close(self, timeout: float) -> bool:
        """Let the executors end; whether every handler has returned."""
        return self._threads.close(timeout) and self._loop.close(timeout)

    def _perform(self, run: Run) -> Outcome:
        if run.place is Place.CELL and self._isolated:
            return self._isolated.perform(run)
        return perform_here(run, self._using)


def _stack(frames: Mapping[int, FrameType], run: Run) -> str:
    frame = frames.get(run.interruptible.thread or 0)
    return "".join(traceback.format_stack(frame)) if frame is not None else "(between two steps)"
