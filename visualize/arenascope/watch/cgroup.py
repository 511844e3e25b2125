# SPDX-License-Identifier: MIT
"""How full the cgroup of a process is: of version 2 or 1 of the kernel's interface, or both side by side."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.humanize import lines
from arenascope.processes import read_proc

if TYPE_CHECKING:
    from collections.abc import Iterator

DEEPEST: Final = 64  # directories from a cgroup up to the root


class Interface(NamedTuple):
    """The files of a version."""

    used: str
    limits: tuple[str, ...]


VERSION_2: Final = Interface("memory.current", ("memory.high", "memory.max"))
VERSION_1: Final = Interface("memory.usage_in_bytes", ("memory.limit_in_bytes",))


class Mount(NamedTuple):
    """Where the cgroups that count memory are."""

    interface: Interface
    root: str  # the cgroup that is mounted
    place: Path


class Fill(NamedTuple):
    """What a cgroup has of what it may have."""

    cgroup: str
    used: int
    limit: int

    @property
    def share(self) -> float:
        """Returns which share of the limit is used."""
        return self.used / max(self.limit, 1)


def mounts() -> list[Mount]:
    """Returns the mounts of this mount namespace."""
    found = []
    for line in lines(read_proc("/proc/self/mountinfo")):
        first, _, last = line.partition(" - ")
        kind, _, options = last.split(" ", 2)
        root, place = (re.sub(r"\\([0-7]{3})", lambda at: chr(int(at[1], 8)), each) for each in first.split(" ")[3:5])
        if kind == "cgroup2":
            found.append(Mount(VERSION_2, root, Path(place)))
        elif kind == "cgroup" and "memory" in options.split(","):
            found.append(Mount(VERSION_1, root, Path(place)))
    return found


def cgroups_of(pid: int) -> str:
    """The cgroups of a process, as the kernel lists them; empty: it has ended."""
    return read_proc(f"/proc/{pid}/cgroup")


def fullest(cgroups: str, among: list[Mount]) -> Fill | None:
    """Returns which of `cgroups`, and of those above them, is nearest to a limit; None: there is no limit."""
    fills = [fill for line in lines(cgroups) for mount in among for fill in _fills(line, mount)]
    return max(fills, key=lambda fill: fill.share, default=None)


def directories(line: str, mount: Mount) -> list[Path]:
    """Returns where a cgroup (a line of /proc/PID/cgroup) and those above it are; none: `mount` does not have it."""
    number, controllers, path = line.split(":", 2)
    if number != "0" if mount.interface is VERSION_2 else "memory" not in controllers.split(","):
        return []
    inside = path.removeprefix(mount.root.rstrip("/")).strip("/")
    if ".." in inside.split("/"):
        return []  # of another namespace
    here = mount.place / inside
    among = [here, *here.parents][:DEEPEST]
    return among[: among.index(mount.place) + 1] if mount.place in among else among


def _fills(line: str, mount: Mount) -> Iterator[Fill]:
    for directory in directories(line, mount):
        used = _number(directory / mount.interface.used)
        for limit in mount.interface.limits:
            most = _number(directory / limit)
            if used is not None and most is not None:
                yield Fill(str(directory), used, most)


def _number(path: Path) -> int | None:
    """None: there is no such file, or it says "max"."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
