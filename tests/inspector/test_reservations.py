# SPDX-License-Identifier: MIT
"""Memory that is reserved and not used costs an inspector nothing: it asks for as much of 8 TiB as of 8 GiB."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tools import harness, programs

SMALL, LARGE, LARGEST = 8, 8 << 10, 64 << 10  # GiB
MODES = ["freeze", "clone", "live"]
KERNELS = ["PAGEMAP_SCAN", "pagemap"]  # the latter as before Linux 6.7


class Work(NamedTuple):
    """What arenadump asked of pagemap."""

    scans: int
    entries: int


@contextmanager
def reserving(kind: str, gib: int) -> Iterator[int]:
    process = subprocess.Popen([programs.build("reserve"), kind, str(gib)], stdout=subprocess.PIPE)
    try:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n", "the reservation is refused (ulimit -v?)"
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def take_snapshot(
    arenadump: harness.Arenadump, tmp_path: Path, pid: int, mode: str, kernel: str
) -> tuple[dict[str, Any], Work]:
    counter = programs.build("count_asks", "-shared", "-fPIC", "-ldl")
    env = {**os.environ, "LD_PRELOAD": str(counter), "COUNT_ASKS": str(tmp_path / "asks")}
    if kernel == "pagemap":
        env["NO_PAGEMAP_SCAN"] = "1"
    out = arenadump.check("summary", "--json", f"--mode={mode}", "--max-pause=60s", pid, env=env)
    asks = (tmp_path / "asks").read_text().split()
    return json.loads(out), Work(*map(int, asks))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["none", "ends", "protected"])
def test_work_is_for_what_is_used(
    arenadump: harness.Arenadump, tmp_path: Path, kind: str, kernel: str, mode: str
) -> None:
    """Before Linux 6.7 protected memory that was written to has to be gone through, up to the last page."""
    work = []
    for gib in (SMALL, LARGE):
        with reserving(kind, gib) as pid:
            summary, asked = take_snapshot(arenadump, tmp_path, pid, mode, kernel)
            assert summary["chunks"]["mmapped"]["count"] == 1
            assert summary["ledger"]["mmapped_in_use"] + summary["ledger"]["mmapped_slack"] >= 4096
            if mode != "live":
                assert summary["snapshot"]["exact"], summary["warnings"]
                assert sum(summary["ledger"].values()) == summary["kernel"]["rss"]
            work.append(asked)
    if kind == "protected" and kernel == "pagemap":
        assert work[0].scans == work[1].scans == 0
        return
    assert work[1].scans <= 2 * work[0].scans
    assert work[1].entries <= 2 * work[0].entries


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_chunk_is_found_beside_half_of_all_addresses(
    arenadump: harness.Arenadump, tmp_path: Path, kernel: str, mode: str
) -> None:
    with reserving("none", LARGEST) as pid:
        summary, _ = take_snapshot(arenadump, tmp_path, pid, mode, kernel)
    assert summary["chunks"]["mmapped"]["count"] == 1
    assert not any(warning["code"] == "mmapped" for warning in summary["warnings"]), summary["warnings"]
