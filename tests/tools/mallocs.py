# SPDX-License-Identifier: MIT
"""Programs that run on another malloc, and what a snapshot says of it."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from arenascope.wire.dump import Dump

from . import debian, harness
from .preload import preloadable

MIB = 1 << 20


@contextmanager
def running(command: Sequence[str | Path], **environment: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command, env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


def library(name: str) -> str:
    """The file name of an installed library. Skips the test where there is none."""
    found = ctypes.util.find_library(name)
    if not found:
        pytest.skip(f"lib{name} is not installed")
    return found


@contextmanager
def holding(command: Sequence[str | Path], **environment: str) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """The PID of tests/programs/knows.c, and the blocks that it holds: from where, up to where."""
    with running(command, **environment) as process:
        blocks = []
        while (line := answer(process)) != "ready\n":
            address, size = (int(word, 16) for word in line.split())
            blocks.append((address, address + size))
        assert len(blocks) > 10000
        yield process.pid, blocks


def check_restless(arenadump: harness.Arenadump, name: str, command: Sequence[str | Path], **environment: str) -> None:
    """Inspects tests/programs/restless.c, which stands wherever a stop finds it, find the allocator all the same."""
    with running(command, **environment) as process:
        assert answer(process) == "ready\n"
        for mode in ["freeze", "clone"] * 3:
            summary = arenadump.summary(process.pid, f"--mode={mode}", "--max-pause=60s")
            found = allocator(summary, name)
            assert found["found"]
            check_rows(summary, found["resident"])


def regions_of(arenadump: harness.Arenadump, target: int | Path, path: Path) -> list[tuple[int, int]]:
    arenadump.check("dump", "-o", path, target)
    return [(int(r["address"]), int(r["address"] + r["size"])) for r in Dump(path).regions]


def merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if out and out[-1][1] == start:
            out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    return out


def outside(blocks: list[tuple[int, int]], regions: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The blocks that are not wholly in a region."""
    whole = merged(regions)
    return [block for block in blocks if not any(start <= block[0] and block[1] <= end for start, end in whole)]


def allocator(summary: dict[str, Any], name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = [r for r in summary["runtimes"] if r["runtime"] == name]
    assert len(found) == 1
    assert found[0]["row"] == "other_malloc"
    return found[0]


def check_rows(summary: dict[str, Any], resident: int) -> None:
    ledger, rss = summary["ledger"], summary["kernel"]["rss"]
    assert sum(ledger.values()) == rss
    assert ledger["other_malloc"] == resident
    assert ledger["other_anon"] < 0.1 * rss


def packaged(package: str, file: str, suite: str = "bookworm") -> str:
    """The path of a library of a Debian package, which is not installed for it."""
    root = debian.unpack(package, suite, debian.NATIVE, {"root": [package]})
    (path,) = root.glob(f"root/usr/lib/*/{file}")
    return str(preloadable(path))
