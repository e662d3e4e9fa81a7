"""Callers of the health port as they come: slow, many, silent, mistaken, over IPv6."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator

import pytest

from tests.support.processes import Process, terminate, wait_until, worker

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

Address = tuple[str, int]


def address_of(process: Process) -> Address:
    found = process.wait_for_line("health at http").split("health at http://")[1].split("/live")[0]
    host, _, port = found.rpartition(":")
    return host.strip("[]"), int(port)


def answer(address: Address, *parts: bytes) -> str:
    """What comes back for a request that is sent in parts, each after the one before has been read."""
    with socket.create_connection(address, 10) as caller:
        caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number, part in enumerate(parts):
            if number:
                answer(address, b"GET /live HTTP/1.1\r\n\r\n")  # by now what was sent before has been seen
            caller.sendall(part)
        with caller.makefile("rb") as file:
            return file.read().decode()


@contextlib.contextmanager
def healthy() -> Iterator[Address]:
    with worker("--health-port", "0") as process:
        address = address_of(process)
        wait_until(lambda: " 200 " in answer(address, b"GET /ready HTTP/1.1\r\n\r\n"), "ready")
        yield address
        assert terminate(process) == 0, process.output
        assert "Traceback" not in process.output


def test_requests_are_answered_in_whatever_pieces_they_come_and_garbage_is_refused():
    with healthy() as address:
        whole = answer(address, b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n")
        pieces = answer(address, b"GET /no", b"thing HTTP/1.1\r\nHo", b"st: x\r\n", b"\r\n")
        long = answer(address, b"GET /ready HTTP/1.1\r\nCookie: " + b"x" * 6_000 + b"\r\n\r\n")
        head = answer(address, b"HEAD /ready HTTP/1.1\r\n\r\n")
        garbage = answer(address, b"\x16\x03\x01\x02\x00\x01\xff\xfe\r\n\r\n")
        pipelined = answer(address, b"GET /live HTTP/1.1\r\n\r\nGET /ready HTTP/1.1\r\n\r\n")
        endless = answer(address, b"x" * 20_000)

    assert whole.startswith("HTTP/1.1 200 OK")
    assert json.loads(whole.split("\r\n\r\n", 1)[1])["ready"] is True
    assert pieces.startswith("HTTP/1.1 404")
    assert long.startswith("HTTP/1.1 200 OK")
    assert head.startswith("HTTP/1.1 200 OK")
    assert head.endswith("\r\n\r\n")
    assert garbage.startswith("HTTP/1.1 404")
    assert pipelined.startswith("HTTP/1.1 200 OK")
    assert endless.startswith("HTTP/1.1 404")


def test_many_silent_callers_do_not_keep_a_probe_out():
    with healthy() as address, contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(socket.create_connection(address, 10))
        assert answer(address, b"GET /ready HTTP/1.1\r\n\r\n").startswith("HTTP/1.1 200 OK")


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 on this machine")
def test_the_port_may_be_one_of_ipv6():
    with worker("--health-port", "[::1]:0") as process:
        address = address_of(process)
        assert address[0] == "::1"
        assert " 200 " in answer(address, b"GET /live HTTP/1.1\r\n\r\n")
        assert terminate(process) == 0, process.output
