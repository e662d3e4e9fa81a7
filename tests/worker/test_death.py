"""How a process ended, in words."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from headgate_django.worker.death import Death


def ended_by(number: int) -> int:
    """The wait status of a real process that a signal has ended."""
    return status_of(["sleep", "60"], number)


def status_of(command: list[str], number: int = 0) -> int:
    process = subprocess.Popen(command)
    if number:
        process.send_signal(number)
    _, status = os.waitpid(process.pid, 0)
    process.returncode = 0  # reaped here
    return status


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_signal_is_named(number):
    death = Death.from_status(ended_by(number))

    assert str(death) == f"killed by {number.name} (signal {number.value})"


def test_a_real_time_signal_without_a_name_is_numbered():
    assert "signal 40" in str(Death.from_status(ended_by(40)))


def test_an_exit_code_is_told():
    assert str(Death.from_status(status_of(["false"]))) == "exit code 1"


def test_a_kernel_without_memory_is_blamed_only_for_what_it_does():
    killed, segfault = ended_by(signal.SIGKILL), ended_by(signal.SIGSEGV)

    assert Death.from_status(killed, oom=True).failure("worker process").error_class == "OutOfMemory"
    assert Death.from_status(segfault, oom=True).failure("worker process").error_class == "ProcessDied"


def test_the_last_memory_and_our_own_reason_are_told():
    death = Death.from_status(ended_by(signal.SIGKILL), rss=84 * 1024**2, because="did not stop in time")

    assert str(death) == "killed by SIGKILL (signal 9) (did not stop in time), 84 MB resident"
