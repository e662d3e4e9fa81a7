"""A process without descriptors: it loses none of those it has, and does not turn in circles."""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import socket
from collections.abc import Iterator

import pytest

from headgate_django.worker.channel import Channel
from headgate_django.worker.supervisor.port import Port

pytestmark = pytest.mark.process


@contextlib.contextmanager
def room_for(count: int) -> Iterator[None]:
    """This process can open so many more descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(held()) + 10, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(count):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)


def held() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")}


def test_a_message_whose_descriptors_cannot_all_be_copied_keeps_none_of_them():
    left, right = Channel.pair()
    reader, writer = os.pipe()
    before = held()

    with room_for(1), pytest.raises(OSError, match="Too many open files"):
        left.post({"t": "spawn"}, (reader, writer))

    assert held() == before
    for fd in (reader, writer):
        os.close(fd)
    left.close()
    right.close()


def test_a_port_that_has_no_room_for_a_caller_waits_until_it_looks_round():
    with selectors.DefaultSelector() as selector, socket.socket() as caller:
        port = Port(selector, lambda path: ("200 OK", "{}"))
        host, _, number = port.open("127.0.0.1:0").rpartition(":")
        caller.settimeout(10)
        with room_for(0):
            caller.connect((host, int(number)))
            [(key, _)] = selector.select(10)
            key.data()
            waiting = selector.select(0)
        port.tidy()
        caller.sendall(b"GET /live HTTP/1.1\r\n\r\n")
        for _ in range(2):  # it comes in, and is heard
            [(key, _)] = selector.select(10)
            key.data()
        answer = caller.recv(1_000)
        port.close()

    assert waiting == []
    assert answer.startswith(b"HTTP/1.1 200 OK")
