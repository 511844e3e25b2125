# SPDX-License-Identifier: MIT
"""What a running process is asked through: where it listens for TCP, and what its program has."""

from __future__ import annotations

import ipaddress
import mmap
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

LISTEN: Final = "0A"  # the state, as /proc/net/tcp has it
SOCKET: Final = re.compile(r"socket:\[(\d+)\]")


def runs(pid: int, exe: str) -> bool:
    """Whether the process (still) runs this program: a dump's may be another one by now."""
    try:
        return str(Path(f"/proc/{pid}/exe").readlink()) == exe
    except OSError:
        return False


def contains(pid: int, text: bytes) -> bool:
    """Whether the program's file contains a text."""
    try:
        with open(f"/proc/{pid}/exe", "rb") as file:  # noqa: PTH123 - a link that only the kernel can follow
            status = os.fstat(file.fileno())
            return _contains(file.fileno(), (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size), text)
    except OSError:
        return False


_SEARCHED: Final[dict[tuple[tuple[int, ...], bytes], bool]] = {}


def _contains(fd: int, file: tuple[int, ...], text: bytes) -> bool:
    """A live view asks at each poll: a file is searched once."""
    if (file, text) not in _SEARCHED:
        with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as mapped:
            _SEARCHED[file, text] = mapped.find(text) >= 0
    return _SEARCHED[file, text]


def listening(pid: int) -> list[str]:
    """Where clients of this machine reach the process: "localhost:8080", "[2001:db8::1]:80".

    Empty where it does not listen, may not be inspected, or has a network of its own (a container).
    """
    proc = Path(f"/proc/{pid}")
    try:
        if (proc / "ns/net").readlink() != Path("/proc/self/ns/net").readlink():
            return []
        own = set(_sockets(proc / "fd"))
        lines = [line for name in ("tcp", "tcp6") for line in _lines(proc / "net" / name)]
    except OSError:
        return []
    found = (line.split() for line in lines)
    places = {_place(fields[1]) for fields in found if fields[3] == LISTEN and fields[9] in own}
    return sorted(places, key=lambda place: int(place.rpartition(":")[2]))


def _lines(table: Path) -> list[str]:
    return table.read_text(encoding="ascii").splitlines()[1:] if table.exists() else []  # no tcp6: IPv6 is off


def _sockets(folder: Path) -> Iterator[str]:
    """The inodes of the sockets that are open."""
    for link in folder.iterdir():
        try:
            opened = SOCKET.fullmatch(str(link.readlink()))
        except OSError:
            continue  # closed meanwhile
        if opened:
            yield opened[1]


def _place(field: str) -> str:
    """An address as people type it. The kernel prints words of 32 bits in its own byte order."""
    digits, _, port = field.partition(":")
    words = [int(digits[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    address = mapped or address
    if address.is_unspecified or address.is_loopback:
        host = "localhost"
    else:
        host = f"[{address}]" if address.version == 6 else str(address)  # noqa: PLR2004 - IPv6
    return f"{host}:{int(port, 16)}"
