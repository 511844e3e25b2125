# SPDX-License-Identifier: MIT
"""A Python's memory is untrusted input: what is not as pymalloc has it is not believed, and costs bounded time."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools import harness, programs
from tools.bounded import MEMORY, look

from arenascope import format as fmt


@contextmanager
def forged(kind: str, scratch: Path) -> Iterator[int]:
    """The PID of a program that is called python3 and says so."""
    program = scratch / "python3"
    shutil.copy(programs.build("forged_python"), program)
    with subprocess.Popen([program, kind], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.kill()


@pytest.mark.parametrize("kind", ["lies", "counts", "overlap", "endless"])
def test_what_is_not_pymallocs_is_not_believed(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with forged(kind, tmp_path) as pid:
        dump = look(arenadump, pid, tmp_path, MEMORY)
    assert dump is not None
    assert list(dump.runtimes["state"]) == [fmt.RuntimeState.UNPROVEN]
    assert len(dump.regions) == len(dump.size_classes) == 0
    assert int(dump.totals["ledger"]["python_arenas"]) == fmt.UNKNOWN
    rows = [int(dump.totals["ledger"][row]) for row in fmt.LEDGER_ROWS if row != "python_arenas"]
    assert sum(rows) == int(dump.meta["rss"])


@pytest.mark.parametrize("kind", ["true", "late"])
def test_what_is_as_pymalloc_has_it_is_found(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Else the tests above could not fail."""
    with forged(kind, tmp_path) as pid:
        dump = look(arenadump, pid, tmp_path, MEMORY)
    assert dump is not None
    assert list(dump.runtimes["state"]) == [fmt.RuntimeState.FOUND]
    (region,) = dump.regions
    pools = int(region["in_use"]) // (100 * 32)
    assert pools in {63, 64}
    assert [tuple(map(int, record)) for record in dump.size_classes] == [(0, 32, pools, 100 * pools, 410 * pools)]
