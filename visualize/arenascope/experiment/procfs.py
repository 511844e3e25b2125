# SPDX-License-Identifier: MIT
"""What the kernel says of the processes of a session, summed: memory (smaps_rollup) and work done (stat)."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from arenascope.processes import GONE, PROC

TICK: Final = 1 / os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat behind the name, counted from 0: proc_pid_stat(5).
STATE, SESSION, MINFLT, MAJFLT, UTIME = 0, 3, 7, 9, 11


class Memory(NamedTuple):
    """Bytes. lazy_free: part of rss that the kernel takes when it needs it (MADV_FREE)."""

    rss: int
    pss: int
    swap: int
    lazy_free: int


class Usage(NamedTuple):
    """Work done so far, with that of children that were waited for; seconds to the nearest clock tick."""

    user: float
    system: float
    minor_faults: int
    major_faults: int

    def since(self, earlier: Usage) -> Usage:
        """What was added."""
        return Usage(*(now - then for now, then in zip(self, earlier)))  # type: ignore[arg-type]


def members(session: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                fields = _stat(int(entry.name))
            except GONE:
                continue
            if int(fields[SESSION]) == session and fields[STATE] not in "ZX":
                found.append(int(entry.name))
    return sorted(found)


def memory(pid: int) -> Memory | None:
    """The memory of one process; None when it is gone."""
    try:
        text = (PROC / str(pid) / "smaps_rollup").read_bytes()
    except GONE:
        return None
    kib = dict(line.split()[:2] for line in text.splitlines()[1:])
    try:
        values = (kib[b"Rss:"], kib[b"Pss:"], kib[b"Swap:"], kib[b"LazyFree:"])
    except KeyError:
        return None  # on its way out: it has no memory any more
    return Memory(*(int(value) * 1024 for value in values))


def high_water(pid: int) -> int | None:
    """The most that was ever resident of this process since its exec, in bytes; None when it is gone.

    Not getrusage's ru_maxrss: that begins with what our own process had when it forked.
    """
    try:
        status = (PROC / str(pid) / "status").read_bytes()
    except GONE:
        return None
    for line in status.splitlines():
        if line.startswith(b"VmHWM:"):
            return int(line.split()[1]) * 1024
    return None


def usage(pids: list[int]) -> Usage:
    """The work that these processes did, summed."""
    total = [0.0] * 4
    for pid in pids:
        try:
            fields = _stat(pid)
        except GONE:
            continue
        minor, children_minor, major, children_major = map(int, fields[MINFLT : MAJFLT + 2])
        user, system, children_user, children_system = map(int, fields[UTIME : UTIME + 4])
        spent = ((user + children_user) * TICK, (system + children_system) * TICK)
        for index, value in enumerate((*spent, minor + children_minor, major + children_major)):
            total[index] += value
    return Usage(total[0], total[1], int(total[2]), int(total[3]))


def _stat(pid: int) -> list[str]:
    text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    return text[text.rindex(")") + 2 :].split()
