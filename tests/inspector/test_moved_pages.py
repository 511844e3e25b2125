# SPDX-License-Identifier: MIT
"""The kernel moves pages while a target is inspected (compaction): on its way a page is neither absent nor in swap."""

from __future__ import annotations

import json
import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools import debian, harness

pytestmark = [pytest.mark.alone, pytest.mark.nightly("limits")]

COMPACT = Path("/proc/sys/vm/compact_memory")
SNAPSHOTS = 12
NOISE = 64 << 20


def compact() -> None:
    COMPACT.write_text("1")


@contextmanager
def compaction() -> Iterator[None]:
    """The kernel moves pages all the time."""
    done = threading.Event()

    def run() -> None:
        while not done.is_set():
            with mmap.mmap(-1, NOISE) as noise:  # leaves holes, to which pages can be moved
                for page in range(0, NOISE, mmap.PAGESIZE):
                    noise[page] = 1
            compact()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_no_page_is_missed(churn_program: Path, arenadump: harness.Arenadump) -> None:
    libc = debian.libc("forky")
    try:
        compact()
    except OSError as reason:
        pytest.xfail(f"the kernel does not compact memory at our word: {reason}")
    command = harness.under(libc, churn_program, "--slots", "16384", "--operations", "100000", "--biggest-log2", "17")
    with harness.Churn(command) as program:
        program.ask("go")
        before = arenadump.summary(program.pid)
        with compaction():
            snapshots = [arenadump.run("summary", "--json", "--mode", "freeze", program.pid) for _ in range(SNAPSHOTS)]
            # A freeze is given up after a time, and moving pages takes much of it.
            seen = [json.loads(snapshot.stdout) for snapshot in snapshots if snapshot.returncode == 0]
        for summary in seen:
            assert summary["snapshot"]["torn_chunks"] == 0
            assert [w for w in summary["warnings"] if w["code"] != "note"] == []
            assert summary["ledger"]["unknown"] == 0
            assert summary["chunks"] == before["chunks"]
