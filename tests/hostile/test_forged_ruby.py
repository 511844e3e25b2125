# SPDX-License-Identifier: MIT
"""Ruby's structures are untrusted input as malloc's are: who forges them is seen through, in bounded time."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from inspector.test_modes import wait_until
from tools import cores, harness, programs
from tools.bounded import MEMORY, take_snapshot

from arenascope.wire import dump_records as fmt

PAGES = 5_000
SLOTS = 408


@contextmanager
def forged(mode: str) -> Iterator[int]:
    """The forger, with what it is taken for a Ruby by."""
    program = programs.build("forged", "-rdynamic")
    with subprocess.Popen([program, mode, str(PAGES)], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout
            assert running.stdout.readline() == "ready\n"
            yield running.pid
        finally:
            running.kill()


def test_what_holds_together_is_believed(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The others are refused for what is wrong with them, and nothing else."""
    with forged("whole") as pid:
        dump = take_snapshot(arenadump, pid, tmp_path, MEMORY, "--objects")
    assert dump
    assert dump.meta["ruby"] == fmt.RubyState.FOUND
    assert dump.string(dump.meta["ruby_releases"]) == "2.6 to 3.0"
    assert len(dump.ruby) == PAGES
    assert (dump.ruby["total_slots"] == SLOTS).all()
    assert (dump.ruby["free_slots"] == SLOTS - 1).all()


@pytest.mark.parametrize("mode", ["circle", "arrays", "unsorted", "twice"])
@pytest.mark.parametrize("target", ["clone", "core"])
def test_what_does_not_is_given_up(arenadump: harness.Arenadump, tmp_path: Path, mode: str, target: str) -> None:
    with forged(mode) as pid:
        if target == "core":
            # A core is mapped whole.
            dump = take_snapshot(arenadump, cores.gcore(pid, tmp_path), tmp_path, None, "--objects")
        else:
            dump = take_snapshot(arenadump, pid, tmp_path, MEMORY, "--mode=clone", "--objects")
    assert dump
    assert dump.meta["ruby"] == fmt.RubyState.UNPROVEN
    assert not len(dump.ruby)
    assert int(dump.totals["ledger"]["ruby_pages"]) == fmt.UNKNOWN


def test_a_freeze_that_meets_a_circle_is_short(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """It stands still meanwhile, and is let go in time: it was read by then, or nothing is said of it."""
    with forged("circle") as pid:
        dump = take_snapshot(arenadump, pid, tmp_path, MEMORY, "--mode=freeze", "--objects")
        assert wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S")
    assert dump is None or dump.meta["ruby"] == fmt.RubyState.UNPROVEN
