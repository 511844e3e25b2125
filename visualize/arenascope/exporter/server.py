# SPDX-License-Identifier: MIT
"""HTTP for Prometheus: one page, GET alone, a bounded number of clients, each for a bounded time.

A client that sends its request byte by byte, or reads the page so, keeps nobody out: when all places are taken, the
next client has the place of the one that has been longest without a whole request.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import sys
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prometheus_client.exposition import generate_latest as plain_text
from prometheus_client.openmetrics.exposition import generate_latest as open_metrics

from arenascope.errors import ArenascopeError, Code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arenascope.exporter.metrics import MetricsPage

PATH: Final = "/metrics"
OPEN_METRICS: Final = "application/openmetrics-text"
CLIENTS: Final = 8  # at a time
LEAVING: Final = 8  # clients that were cut off, and whose threads have not noticed it yet


class Limits(NamedTuple):
    """How long a client is served, in seconds from its connection on."""

    request: float = 10.0  # until its request is there
    whole: float = 30.0  # until it has the page


USUAL: Final = Limits()


class Address(NamedTuple):
    """Where to listen."""

    ip: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return ipaddress.ip_address(self.ip).is_loopback

    def __str__(self) -> str:
        """As in a URL."""
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


def parse_address(text: str) -> Address | None:
    """127.0.0.1:9764, [::1]:9764 or localhost:9764; None: it is no such address."""
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+|localhost)):([0-9]{1,5})", text)
    if not match or int(match[3]) >= 1 << 16:
        return None
    ip = match[1] or match[2].replace("localhost", "127.0.0.1")
    try:
        version = ipaddress.ip_address(ip).version
    except ValueError:
        return None
    return Address(ip, int(match[3])) if (version == 6) == bool(match[1]) else None  # noqa: PLR2004


class _Client:
    """A connection."""

    def __init__(self, request: socket.socket) -> None:
        self.has_asked = False
        self._socket: Final = request
        self._begun: Final = time.monotonic()

    def is_late(self, limits: Limits) -> bool:
        """Whether it has had its time."""
        return time.monotonic() - self._begun > (limits.whole if self.has_asked else limits.request)

    def cut(self) -> None:
        """Its thread, which reads or writes, notices this at once."""
        with suppress(OSError):  # it has gone away itself
            self._socket.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        """The page, or 404."""
        self.server.has_asked(self.request)
        if self.path.partition("?")[0] != PATH:
            self._send(404, "text/plain; charset=utf-8", f"the metrics are at {PATH}\n".encode())
        elif OPEN_METRICS in self.headers.get("Accept", ""):
            self._send(200, f"{OPEN_METRICS}; version=1.0.0; charset=utf-8", open_metrics(self.server.page))  # type: ignore[no-untyped-call]
        else:
            self._send(200, "text/plain; version=0.0.4; charset=utf-8", plain_text(self.server.page))

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing: somebody scrapes for months."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: Address, page: MetricsPage, limits: Limits) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.ip else socket.AF_INET
        self.page: Final = page
        self._limits: Final = limits
        self._running: Final = threading.BoundedSemaphore(CLIENTS + LEAVING)
        self._lock: Final = threading.Lock()
        self._clients: Final[dict[Any, _Client]] = {}  # by their sockets, the oldest first
        super().__init__((address.ip, address.port), _Handler)

    def server_bind(self) -> None:
        """As of the base class, but without asking the name service what this machine is called."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread. Where all places are taken, another client loses its own."""
        if not self._running.acquire(blocking=False):
            self.shutdown_request(request)
            return
        with self._lock:
            if len(self._clients) >= CLIENTS:
                waiting = (each for each, client in self._clients.items() if not client.has_asked)
                self._clients.pop(next(waiting, next(iter(self._clients)))).cut()
            self._clients[request] = _Client(request)
        super().process_request(request, client_address)

    def has_asked(self, request: Any) -> None:
        """The client has sent its request."""
        with self._lock:
            if request in self._clients:
                self._clients[request].has_asked = True

    def service_actions(self) -> None:
        """Twice a second: clients that have had their time go."""
        with self._lock:
            for client in self._clients.values():
                if client.is_late(self._limits):
                    client.cut()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """As of the base class."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._clients.pop(request, None)
            self._running.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away concerns nobody."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


@contextmanager
def serving(address: Address, page: MetricsPage, limits: Limits = USUAL) -> Iterator[Address]:
    """Serve the page meanwhile; the address has the port that the kernel chose for port 0."""
    try:
        server = _Server(address, page, limits)
    except OSError as error:
        raise ArenascopeError(
            Code.IO, f"cannot listen at {address}: {error.strerror}: choose another address with --listen"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="exporter", daemon=True)
    thread.start()
    try:
        yield address._replace(port=server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
