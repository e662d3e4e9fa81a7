"""A forked process never comes back into its parent's frames, whatever happens to it."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable

import pytest

from headgate_django.worker.supervisor.fork import FAILED, fork

pytestmark = pytest.mark.process

CAME_BACK = 99


def exit_code_of(prepare: Callable[[], None], work: Callable[[], int]) -> int:
    parent = os.getpid()
    try:
        pid = fork(prepare, work)
    except BaseException:
        if os.getpid() == parent:
            raise
    if os.getpid() != parent:
        os._exit(CAME_BACK)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _print_into_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    sys.stdout = sys.stderr = os.fdopen(writer, "w", buffering=1)


def _fail() -> int:
    raise ValueError("a fault of the work")


def _is_told_to_end() -> int:
    os.kill(os.getpid(), signal.SIGTERM)
    return 0


def test_the_exit_code_is_what_the_work_returns():
    assert exit_code_of(lambda: None, lambda: 7) == 7


@pytest.mark.parametrize("work", [_fail, lambda: 7], ids=["fails", "succeeds"])
def test_a_process_that_cannot_even_print_its_traceback_ends(work):
    assert exit_code_of(_print_into_nothing, work) in (FAILED, 7)


def test_a_process_whose_logging_cannot_be_shut_down_ends():
    def work() -> int:
        class Broken(logging.StreamHandler):
            def flush(self) -> None:
                raise SystemExit(3)

        logging.getLogger().addHandler(Broken())
        return 7

    assert exit_code_of(lambda: None, work) == 7


def test_a_signal_before_the_preparation_is_done_hits_the_prepared_process():
    def prepare() -> None:
        os.kill(os.getpid(), signal.SIGTERM)  # held back
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(5))

    assert exit_code_of(prepare, lambda: 7) == 5
