# SPDX-License-Identifier: MIT
"""A program that writes its memory all the time, in a memory cgroup that has only so much room left."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import kernel, programs


class TightCgroup(kernel.Cgroup):
    """A memory cgroup, of either version, with a hard limit."""

    def __init__(self, name: str = "arenascope-tight") -> None:
        super().__init__(f"{name}-{os.getpid()}-{time.monotonic_ns()}")
        self.unified = self.limit.name == "memory.high"
        self.hard = self.path / ("memory.max" if self.unified else "memory.limit_in_bytes")

    def inner(self, name: str) -> Path:
        """A cgroup below it, for a process: in version 2 no other one has processes."""
        if self.unified:
            (self.path / "cgroup.subtree_control").write_text("+memory")
        path = self.path / name
        path.mkdir()
        return path

    @property
    def usage(self) -> int:
        return int((self.path / ("memory.current" if self.unified else "memory.usage_in_bytes")).read_text())

    def leave(self, room: int, *, soft: bool = False) -> int:
        """Limits it to what it has now, and so many bytes more. `soft`: where it is slowed down (version 2)."""
        limit = self.usage + room
        (self.limit if soft else self.hard).write_text(str(limit))
        return limit

    def kills(self) -> int:
        """How many processes of it, and of those below it, the kernel has killed so far."""
        if self.unified:
            return self._count("memory.events", "oom_kill")
        return sum(self._count(path, "oom_kill") for path in self.path.rglob("memory.oom_control"))  # each its own

    def slowed(self) -> int:
        """How often a process has met memory.high so far, and had to wait (version 2)."""
        return self._count("memory.events", "high") if self.unified else 0

    def _count(self, file: str | Path, key: str) -> int:
        return int(dict(line.split() for line in (self.path / file).read_text().splitlines())[key])

    def __exit__(self, *_: object) -> None:
        for path in sorted((path for path in self.path.rglob("*") if path.is_dir()), reverse=True):
            with contextlib.suppress(OSError):
                path.rmdir()
        super().__exit__()


def preloadable(arenadump: Path) -> Path:
    """An arenadump that takes LD_PRELOAD: that of a virtual machine is static, and has another one beside it."""
    if "TEST_PROGRAMS" not in os.environ:
        return arenadump
    found = arenadump.with_name("arenadump-dynamic")
    if not found.exists():
        pytest.xfail("arenadump is static here, and no library can be preloaded into it")
    return found


@contextlib.contextmanager
def running(group: Path, megabytes: int, how: str = "") -> Iterator[subprocess.Popen[str]]:
    """The program, in a cgroup, with all of its memory written. The kernel may kill it any time from then on."""
    program = programs.build("tight")
    command = f'echo $$ >"{group}/cgroup.procs" && exec "{program}" {megabytes} {how}'
    target = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert target.stdout
        assert target.stdout.readline() == "READY\n"
        yield target
    finally:
        target.kill()
        target.communicate()
