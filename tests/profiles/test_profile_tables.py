# SPDX-License-Identifier: MIT
"""The recorder's tables: in a process that locks its memory, and when they are full."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tools import harness, programs
from tools.profiling import profile, profiling
from tools.stage import Stage, until

UNSUPPORTED = 5
BLOCKS, SIZE = 2000, 5000
LOCKS = """
import ctypes, os, sys, time
def until(name):
    while not os.path.exists(name):
        time.sleep(0.01)
def allocate(count, size):
    return [bytes(size) for _ in range(count)]
def lock(flags):
    if flags and ctypes.CDLL(None, use_errno=True).mlockall(flags):
        open("refused", "w").close()
lock(int(sys.argv[1]))
open("ready", "w").close()
until("go")
kept = allocate(2000, 5000)
lock(int(sys.argv[2]))
open("allocated", "w").close()
until("free")
del kept
until("never")
"""
MOST_MIB = 100  # of the tables' 256 MiB the recorder takes a few; the rest is the program, its blocks and the agent
CHUNK = 1040  # bytes(1000), its header and the rounding
FILLS = """
import os, time
def before(count):
    return [bytes(1000) for _ in range(count)]
def after(count):
    return [bytes(1000) for _ in range(count)]
kept = before({before})
open("ready", "w").close()
while {before} and not os.path.exists("go"):
    time.sleep(0.01)
more = after({after})
open("allocated", "w").close()
while True:
    time.sleep(1)
"""


def resident_mib(pid: int) -> int:
    found = re.search(r"^VmRSS:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) >> 10


def said(stage: Stage, name: str) -> None:
    until((stage.folder / name).exists, f"it is not {name}")
    if (stage.folder / "refused").exists():
        pytest.skip("this process may lock no memory (RLIMIT_MEMLOCK)")


def check_memory_comes_back(
    stage: Stage, arenadump: harness.Arenadump, first: int, meanwhile: int, preload: str = ""
) -> None:
    """Nobody makes tables that are not needed, and what was in them is not taken for a profile afterwards."""
    command = [sys.executable, "-c", LOCKS, str(first), str(meanwhile)]
    pid = stage.start(command, LD_PRELOAD=preload, PYTHONMALLOC="malloc").pid
    said(stage, "ready")
    with profiling(arenadump, pid, stage.folder / "dump", "--exact"):
        stage.go()
        said(stage, "allocated")
        assert meanwhile or resident_mib(pid) < MOST_MIB
    assert resident_mib(pid) < MOST_MIB
    assert profile(arenadump, stage.folder / "dump")["known"]["bytes"] >= BLOCKS * SIZE
    done = arenadump.run("sites", pid)
    assert (done.returncode, "has no profile" in done.stderr) == (UNSUPPORTED, True), done.stdout
    with profiling(arenadump, pid, stage.folder / "second", "--exact"):
        pass
    assert profile(arenadump, stage.folder / "second")["known"]["bytes"] < BLOCKS * SIZE // 10
    assert resident_mib(pid) < MOST_MIB


@pytest.mark.parametrize(("first", "meanwhile"), [(3, 0), (0, 1)], ids=["from the start", "meanwhile"])
def test_memory_that_is_locked_comes_back(
    stage: Stage, arenadump: harness.Arenadump, first: int, meanwhile: int
) -> None:
    check_memory_comes_back(stage, arenadump, first, meanwhile)


def test_memory_that_the_kernel_keeps_is_replaced(stage: Stage, arenadump: harness.Arenadump) -> None:
    preload = programs.build("keeps_memory", "-shared", "-fPIC")
    check_memory_comes_back(stage, arenadump, 0, 0, str(preload))


def test_full_tables_do_not_call_it_unseen(stage: Stage, arenadump: harness.Arenadump) -> None:
    """What is recorded from the start and has no room in the tables is without a stack."""
    program = FILLS.format(before=0, after=200_000)
    variables = {"ARENASCOPE_PROFILE": "exact,memory=64M", "PYTHONMALLOC": "malloc"}
    pid = stage.start([sys.executable, "-c", program], **variables).pid
    said(stage, "allocated")
    found = profile(arenadump, pid)
    assert found["without_stack"]["count"] > 50_000
    assert found["without_stack"]["count"] <= found["lost"]
    assert found["unseen"]["bytes"] < 1 << 20
    text = arenadump.check("sites", pid)
    assert f"recorded without a stack: {found['lost']} allocations" in text


def test_full_tables_leave_unseen_what_was_before(stage: Stage, arenadump: harness.Arenadump) -> None:
    """Chunks without room are known from those that were there before the profile began."""
    program = FILLS.format(before=20_000, after=150_000)
    pid = stage.start([sys.executable, "-c", program], LD_PRELOAD="", PYTHONMALLOC="malloc").pid
    said(stage, "ready")
    with profiling(arenadump, pid, stage.folder / "dump", "--rates=exact,memory=64M"):
        stage.go()
        said(stage, "allocated")
    found = profile(arenadump, stage.folder / "dump")
    assert found["without_stack"]["count"] > 50_000
    # Places in memory share bits: a few chunks of before are taken for refused ones. And Python itself has some.
    assert 20_000 * CHUNK * 0.8 < found["unseen"]["bytes"] < 20_000 * CHUNK * 1.2 + (8 << 20)
