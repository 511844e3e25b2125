# SPDX-License-Identifier: MIT
"""Core files of programs that run: the kernel's own, and gdb's."""

from __future__ import annotations

import contextlib
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import harness, kernel

PATTERN = Path("/proc/sys/kernel/core_pattern")


@contextlib.contextmanager
def written_here() -> Iterator[None]:
    """The kernel writes cores into the directory in which a program dies, for as long as this lasts."""
    before = PATTERN.read_text()
    if before[0] not in "|/":
        yield
        return
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(kernel.setting(PATTERN, "core"))
        except kernel.NotAllowedError as reason:
            pytest.skip(f"the kernel gives cores to {before.strip()}: {reason}")
        yield


def abort(program: harness.Churn, directory: Path) -> Path:
    """Has the truth harness's program, which was started in `directory` with core=True, die of SIGABRT; its core."""
    before = set(directory.iterdir())
    with written_here(), pytest.raises(AssertionError, match="the program died"):
        program.ask("abort")
    (path,) = set(directory.iterdir()) - before
    return path


def gcore(pid: int, directory: Path) -> Path:
    subprocess.run(["gcore", "-o", directory / "gcore", str(pid)], check=True, capture_output=True)
    return directory / f"gcore.{pid}"


def lose_thread_pointers(core: Path, survivor: int) -> int:
    """Clears fs_base of all threads but the `survivor`-th, as Linux 5.9 to 5.15 does with those that did not dump.

    How many there were to clear. ELF-64 of x86-64: Elf64_Phdr, NT_PRSTATUS (1) with user_regs_struct from byte 112 on.
    """
    with core.open("r+b") as file:
        head = file.read(64)
        first, count = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<H", head, 56)[0]
        file.seek(first)
        segments = [struct.unpack("<IIQQQQQQ", file.read(56)) for _ in range(count)]
        start, size = next((s[2], s[5]) for s in segments if s[0] == 4)
        at, seen = start, 0
        while at < start + size:
            file.seek(at)
            name, length, kind = struct.unpack("<III", file.read(12))
            at += 12 + (name + 3) // 4 * 4
            if kind == 1:
                if seen != survivor:
                    file.seek(at + 112 + 21 * 8)
                    file.write(bytes(8))
                seen += 1
            at += (length + 3) // 4 * 4
    return seen - 1


def copy_with_holes(path: Path, directory: Path) -> Path:
    """A copy with exactly the holes of the original; cp would make some more."""
    packed = subprocess.run(["tar", "-C", path.parent, "-cS", path.name], stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "-C", directory, "-xS"], input=packed.stdout, check=True)
    return directory / path.name
