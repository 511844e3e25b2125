# SPDX-License-Identifier: MIT
"""The agent's control socket, talked to directly."""

from __future__ import annotations

import re
import socket
import struct
from contextlib import suppress
from pathlib import Path

from .paths import ROOT

UNSUPPORTED = 5
RECORD, RECORD_END, RECORDER_ROOM = 5, 6, 9  # operations
_HEADER = (ROOT / "inspector/control/protocol.h").read_text()
PROTOCOL = int(re.search(r"AS_CONTROL_PROTOCOL = (\d+)", _HEADER)[1])  # type: ignore[index]
RATES_AT = 40  # in struct as_control_request
REQUEST_BYTES = RATES_AT + 96


def worker_thread(pid: int) -> Path:
    """The worker thread in /proc. The kernel leaves some out of a list where threads end while it is read."""
    for _ in range(100):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError):
                if (task / "comm").read_text() == "arenascope\n":
                    return task
    message = f"process {pid} has no thread of the agent"
    raise AssertionError(message)


def control_socket(pid: int) -> str:
    """The name of the agent's control socket."""
    held = set()
    for fd in (worker_thread(pid) / "fd").iterdir():
        with suppress(FileNotFoundError):  # the agent opens other files for instants
            held.add(re.sub(r"\D", "", str(fd.readlink())))
    lines = [line.split() for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()]
    (name,) = (words[7] for words in lines if words[3] == "00010000" and words[6] in held)
    return "\0" + name.removeprefix("@")


def code(client: socket.socket) -> int:
    client.settimeout(240)  # an agent that hangs never answers; one of a starved machine may take long
    return int(struct.unpack_from("<II", client.recv(1 << 16))[1])


def ask(client: socket.socket, operation: int, protocol: int = PROTOCOL, fd: int | None = None, rates: str = "") -> int:
    """The code that the agent answers with."""
    request = struct.pack("<II", protocol, operation).ljust(RATES_AT, b"\0") + rates.encode()
    request = request.ljust(REQUEST_BYTES, b"\0")
    socket.send_fds(client, [request], [] if fd is None else [fd])
    return code(client)
