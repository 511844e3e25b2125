# SPDX-License-Identifier: MIT
"""Files of the kernel's that wake us: a cgroup's counts of events when they move, and stalls on memory (PSI)."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

MOST: Final = 256  # open files
# Microseconds in which a stall is counted. Without CAP_SYS_RESOURCE the kernel wants a multiple of two seconds.
WINDOWS: Final = (1_000_000, 2_000_000)


class Alarms:
    """Open files, each of which wakes a wait. Where one cannot be had, its counts are only asked for."""

    def __init__(self, stall: float | None) -> None:
        """`stall`: the seconds within a second of which an alarm for stalls tells."""
        self._stall: Final = int((stall or 0) * 1e6)
        self._files: Final[dict[Path, int | None]] = {}  # None: there is no alarm for it
        self.poll: Final = select.poll()

    def on(self, path: Path, *, stalls: bool = False) -> None:
        """Be woken by this file from now on."""
        if path not in self._files and sum(fd is not None for fd in self._files.values()) < MOST:
            self._files[path] = self._stalls(path) if stalls else self._events(path)

    def _events(self, path: Path) -> int | None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            os.pread(fd, 4096, 0)  # only what comes after it has been read wakes
        except OSError:  # the cgroup has gone since
            os.close(fd)
            return None
        self.poll.register(fd, select.POLLPRI)
        return fd

    def _stalls(self, path: Path) -> int | None:
        for window in WINDOWS:
            with suppress(OSError):
                fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    os.write(fd, b"some %d %d\0" % (min(self._stall, window), window))
                except OSError:
                    os.close(fd)
                    raise
                self.poll.register(fd, select.POLLPRI)
                return fd
        return None

    def heard(self, fds: set[int]) -> None:
        """Those of these that woke us can wake again; those whose cgroup has gone cannot."""
        for path, fd in list(self._files.items()):
            if fd is not None and fd in fds:
                try:
                    os.pread(fd, 4096, 0)
                except OSError:
                    self._drop(path, fd)

    def _drop(self, path: Path, fd: int) -> None:
        self.poll.unregister(fd)
        os.close(fd)
        del self._files[path]

    def close(self) -> None:
        """No more alarms."""
        for path, fd in list(self._files.items()):
            if fd is not None:
                self._drop(path, fd)
