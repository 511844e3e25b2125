# SPDX-License-Identifier: MIT
"""Go's heap, found from outside, held against what Go says of itself; and a heap that is none."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tools import harness, programs
from tools.bounded import MEMORY, take_snapshot

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

MIB = 1 << 20


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stripped: nothing in it has a name."""
    if not shutil.which("go"):
        pytest.skip("go is not installed (Debian: golang-go)")
    path = tmp_path_factory.mktemp("go") / "holds"
    source = programs.SOURCES / "holds.go"
    subprocess.run(["go", "build", "-ldflags=-s -w", "-o", path, source], check=True)
    return path


@contextmanager
def running(program: Path) -> Iterator[tuple[int, int]]:
    """The PID, and how many bytes Go has for its heap and its stacks."""
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin
            assert process.stdout
            process.stdin.write("\n")
            process.stdin.flush()
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.parametrize("mode", ["freeze", "clone"])
def test_heap_is_a_row_of_its_own(arenadump: harness.Arenadump, program: Path, mode: str) -> None:
    with running(program) as (pid, says):
        summary = arenadump.summary(pid, f"--mode={mode}")
    found: dict[str, Any]
    (found,) = summary["runtimes"]
    assert (found["runtime"], found["part"], found["row"]) == ("go", "heap", "managed")
    assert found["found"]
    assert found["size"] == found["committed"] == says
    ledger = summary["ledger"]
    assert 60 * MIB < ledger["managed"] == found["resident"] <= says
    assert sum(ledger.values()) == summary["kernel"]["rss"]
    # The stacks of goroutines lie in the heap, whose mapping is no stack for that.
    assert ledger["stacks"] < MIB
    assert ledger["other_anon"] < 0.1 * summary["kernel"]["rss"]


def forged(kind: str, arenadump: harness.Arenadump, scratch: Path) -> Dump:
    with subprocess.Popen([programs.build("forged_go"), kind], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            dump = take_snapshot(arenadump, process.pid, scratch, MEMORY)
        finally:
            process.kill()
    assert dump is not None
    assert [int(kind) for kind in dump.runtimes["kind"]] == [fmt.RuntimeKind.GO]
    managed = int(dump.totals["ledger"]["managed"])
    rows = [int(dump.totals["ledger"][row]) for row in fmt.LEDGER_ROWS if row != "managed"]
    assert sum(rows) + (0 if managed == fmt.UNKNOWN else managed) == int(dump.meta["rss"])
    return dump


@pytest.mark.parametrize("kind", ["empty", "leads", "full", "endless", "malloc"])
def test_what_is_not_gos_is_not_believed(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = forged(kind, arenadump, tmp_path)
    assert list(dump.runtimes["state"]) == [fmt.RuntimeState.UNPROVEN]
    assert len(dump.regions) == 0
    assert int(dump.totals["ledger"]["managed"]) == fmt.UNKNOWN


def test_what_is_as_go_has_it_is_found(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Else the tests above could not fail."""
    dump = forged("true", arenadump, tmp_path)
    assert list(dump.runtimes["state"]) == [fmt.RuntimeState.FOUND]
    assert [int(size) for size in dump.regions["size"]] == [MIB, MIB]
    assert int(dump.totals["ledger"]["managed"]) == 2 << 16
