# SPDX-License-Identifier: MIT
"""V8's heaps, found from outside in Node.js, held against what V8 says of itself."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tools import cores, harness, programs

MIB = 1 << 20
BUFFER = 50 * MIB
GUARDS = 256 << 10  # bytes of pages that V8 counts and nobody may touch, around compiled code
TRIES = 20


class Node:
    """A Node.js that holds objects, and says what V8 says of them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid
        self.says()

    def says(self) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())["heap"]
        return answer


@contextmanager
def node() -> Iterator[Node]:
    if not shutil.which("node"):
        pytest.skip("node is not installed (Debian: nodejs)")
    with subprocess.Popen(
        ["node", programs.SOURCES / "holds.js"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Node(process)
        finally:
            process.kill()


def heap(summary: dict[str, Any]) -> dict[str, Any]:
    (found,) = summary["runtimes"]
    assert (found["runtime"], found["part"], found["row"]) == ("v8", "heap", "managed")
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("mode", ["freeze", "snapshot"])
def test_heap_is_a_row_of_its_own(arenadump: harness.Arenadump, mode: str) -> None:
    """Most of a heap is in no clone: V8 says that children are not to have it."""
    with node() as program:
        sizes = []
        for _ in range(TRIES):
            before = program.says()["total_heap_size"]
            summary = arenadump.summary(program.pid, f"--mode={mode}")
            found, ledger = heap(summary), summary["ledger"]
            assert found["found"]
            sizes.append((before, found["size"], program.says()["total_heap_size"]))
            if (
                before - GUARDS <= found["size"] <= before
            ):  # else a collection, whose threads run on, changed it meanwhile
                break
        else:
            raise AssertionError(f"the heap is never as large as V8 says: {sizes}")
    assert 20 * MIB < found["resident"] == ledger["managed"] <= found["size"]
    assert sum(ledger.values()) == summary["kernel"]["rss"]
    assert ledger["mmapped_in_use"] >= BUFFER
    assert ledger["other_anon"] < 0.1 * summary["kernel"]["rss"]


def test_core(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    if not shutil.which("gcore"):
        pytest.skip("gdb is not installed")
    with node() as program:
        core = cores.gcore(program.pid, tmp_path)
        says = program.says()["total_heap_size"]
    found = heap(arenadump.summary(core))
    assert found["found"]
    assert found["size"] >= says / 2  # a collection may have come between
    assert found["resident"] is None
