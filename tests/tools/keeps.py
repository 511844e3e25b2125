# SPDX-License-Identifier: MIT
"""tests/programs/owning.cc, which knows what keeps its pages."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from arenascope.wire.dump import Dump
from tools import harness, programs

HEADER = 16


class Keeps:
    """tests/programs/owning.cc, its dump, and what it says of its objects: class → addresses of chunks."""

    def __init__(self, arenadump: harness.Arenadump, folder: Path, process: subprocess.Popen[str]) -> None:
        self.of: dict[str, set[int]] = defaultdict(set)
        self.pid = process.pid
        assert process.stdout
        for line in process.stdout:
            if line == "ready\n":
                break
            name, address = line.split()
            self.of[name].add(int(address, 16) - HEADER)
        self.path = folder / "dump"
        self.process, self.arenadump = process, arenadump
        self.dump = self.taken(self.path)

    def taken(self, path: Path) -> Dump:
        """A dump of the program as it is now."""
        self.arenadump.check("dump", "--graph", "--chunks", "--mode=freeze", "-o", path, self.pid)
        return Dump(path)

    def change(self) -> None:
        """100 connections less, 20 lost objects more."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("x")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "changed\n"


@contextmanager
def running(arenadump: harness.Arenadump, folder: Path) -> Iterator[Keeps]:
    """The program, until the end of the block."""
    program = programs.build("owning")
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Keeps(arenadump, folder, process)
        finally:
            process.kill()
