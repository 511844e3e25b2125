# SPDX-License-Identifier: MIT
"""HTTP for Prometheus: one page, GET alone, a bounded number of clients."""

from __future__ import annotations

import ipaddress
import re
import socket
import sys
import threading
from contextlib import contextmanager
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
PATIENCE: Final = 10.0  # seconds that a client may keep silent


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


class _Handler(BaseHTTPRequestHandler):
    timeout = PATIENCE
    server: _Server

    def do_GET(self) -> None:
        """The page, or 404."""
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

    def __init__(self, address: Address, page: MetricsPage) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.ip else socket.AF_INET
        self.page: Final = page
        self._free: Final = threading.BoundedSemaphore(CLIENTS)
        super().__init__((address.ip, address.port), _Handler)

    def server_bind(self) -> None:
        """As of the base class, but without asking the name service what this machine is called."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread, unless there are too many already."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """As of the base class."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away concerns nobody."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


@contextmanager
def serving(address: Address, page: MetricsPage) -> Iterator[Address]:
    """Serve the page meanwhile; the address has the port that the kernel chose for port 0."""
    try:
        server = _Server(address, page)
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
