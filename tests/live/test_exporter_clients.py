# SPDX-License-Identifier: MIT
"""Clients of the exporter that hold their places: they keep no scrape out, and do not stay for ever.

The server runs in this process. Its limits are either so long that only a new client ends an old one, or so short that
they end a client that would go on without end.
"""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import pytest
from prometheus_client.metrics_core import GaugeMetricFamily

from arenascope.exporter.metrics import MetricsPage
from arenascope.exporter.server import CLIENTS, Address, Limits, serving

LONG = Limits(1e6, 1e6)
SHORT = Limits(0.05, 0.05)
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = 32 << 20  # bytes: more than all buffers on the way


class _Page:
    """A page of one metric with a long explanation."""

    def __init__(self, length: int) -> None:
        self._length = length

    def collect(self) -> list[Any]:
        return [GaugeMetricFamily("one", "x" * self._length, value=1)]


@contextmanager
def server(limits: Limits, length: int = 10) -> Iterator[Address]:
    with serving(Address("127.0.0.1", 0), cast("MetricsPage", _Page(length)), limits) as address:
        yield address


def scrape(address: Address) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=240) as answer:
        return str(answer.read().decode())


def holding(address: Address, sent: bytes) -> socket.socket:
    client = socket.create_connection(address, timeout=240)
    client.sendall(sent)
    return client


def is_cut(client: socket.socket) -> bool:
    """Waits until the server has ended the connection without an answer."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\nX-Slow: "], ids=["nothing", "half a request"])
def test_clients_that_hold_all_places_keep_no_scrape_out(sent: bytes) -> None:
    with server(LONG) as address, ExitStack() as stack:
        clients = [stack.enter_context(holding(address, sent)) for _ in range(3 * CLIENTS)]
        assert is_cut(clients[0])
        for _ in range(2 * CLIENTS):
            assert "one 1.0" in scrape(address)


def test_a_client_that_has_asked_is_not_cut_before_one_that_has_not() -> None:
    with server(LONG, LARGE) as address, ExitStack() as stack:
        reader = stack.enter_context(holding(address, REQUEST))
        assert reader.recv(8) == b"HTTP/1.0"
        for _ in range(CLIENTS + 3):
            stack.enter_context(holding(address, b"GET"))
        rest = sum(len(part) for part in iter(lambda: reader.recv(1 << 20), b""))
        assert rest > LARGE


def test_clients_that_read_no_page_keep_no_scrape_out() -> None:
    with server(LONG, LARGE) as address, ExitStack() as stack:
        for _ in range(CLIENTS):
            client = stack.enter_context(holding(address, REQUEST))
            assert client.recv(8) == b"HTTP/1.0"
        assert "one 1.0" in scrape(address)


def test_a_client_that_sends_a_byte_now_and_then_is_cut_off() -> None:
    with server(SHORT) as address, holding(address, b"GET /metrics HTTP/1.1\r\nX-Slow: ") as client:
        client.settimeout(0.02)
        for _ in range(10_000):
            try:
                client.sendall(b"x")
                if client.recv(1) == b"":
                    break
            except socket.timeout:
                continue
            except OSError:
                break
        else:
            pytest.fail("200 seconds after the limit the client is still there")


def test_a_client_that_keeps_silent_is_cut_off() -> None:
    with server(SHORT) as address, holding(address, b"") as client:
        assert is_cut(client)


def test_a_client_that_does_not_read_on_is_cut_off() -> None:
    with server(SHORT, LARGE) as address:
        before = threading.active_count()
        with holding(address, REQUEST):
            settled(lambda: threading.active_count() > before)
            settled(lambda: threading.active_count() == before)  # its thread, which could write no more, has ended


def settled(reached: Callable[[], bool]) -> None:
    """Waits until something is so."""
    for _ in range(12_000):
        if reached():
            return
        time.sleep(0.02)
    pytest.fail("240 seconds later it is not so")
