# SPDX-License-Identifier: MIT
"""Processes whose memory the kernel has in many more mappings than the program has mapped: all is found, as before."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools import harness, kernel, odd, programs
from tools.jvms import required
from tools.mallocs import MIB, allocator, answer, check_rows, holding, outside, packaged, regions_of, running

SIGNAL = 63  # of tests/programs/splits_mappings.c
ALLOCATORS = {
    "jemalloc": ("libjemalloc2", "libjemalloc.so.2"),
    "mimalloc": ("libmimalloc2.0", "libmimalloc.so.2.0"),
    "tcmalloc": ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
}
PYTHON = """
kept = [{i: str(i)} for i in range(200000)]
print("ready", flush=True)
input()
"""
RUBY = """
KEPT = (0...800000).map { |i| { i => i.to_s * 9 } }
puts "ready"
$stdout.flush
gets
"""
ROWS = ("in_use", "mmapped_in_use", "python_arenas", "ruby_pages", "managed", "other_malloc", "other_anon")


def splitting() -> str:
    return str(programs.build("splits_mappings", "-shared", "-fPIC"))


def pieces(pid: int) -> int:
    """The mappings that the library has split off: a flag of theirs says that they are read at random."""
    return Path(f"/proc/{pid}/smaps").read_text().count(" rr")


def bss_of(pid: int, library: str) -> int:
    """In how many mappings a library's .bss is: those without a name, right behind its own."""
    count, end = 0, None
    for mapping in kernel.smaps(pid):
        if mapping.path == library:
            count, end = 0, mapping.end
        elif mapping.start == end and not mapping.path:
            count, end = count + 1, mapping.end
    return count


def split(pid: int) -> None:
    before = pieces(pid)
    os.kill(pid, SIGNAL)
    odd.wait_for(lambda: pieces(pid) > before + 100)
    odd.wait_for(lambda: odd.state(pid) == "S")


@pytest.mark.parametrize("what", ["variables", "everything"])
@pytest.mark.parametrize("name", ALLOCATORS)
def test_of_an_allocator(name: str, what: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Chromium has its variables so where the processor has protection keys."""
    library = Path(packaged(*ALLOCATORS[name]))
    with holding([programs.build_portable("knows")], LD_PRELOAD=f"{library} {splitting()}") as (pid, blocks):
        assert bss_of(pid, str(library.resolve())) > 1
        if what == "everything":
            split(pid)
        summary = arenadump.summary(pid)
        regions = regions_of(arenadump, pid, tmp_path / "dump")
    found = allocator(summary, name)
    assert found["found"]
    assert outside(blocks, regions) == []
    check_rows(summary, found["resident"])


def command(name: str, classes: Path) -> list[str]:
    """A program that holds some ten MiB, writes a line, and waits for one."""
    if name == "java":
        subprocess.run([required().tool("javac"), "-d", classes, programs.SOURCES / "java/Holds.java"], check=True)
        return [required().tool("java"), "-Xmx160m", "-cp", str(classes), "Holds", "60", "20"]
    if name == "python3":
        return [sys.executable, "-c", PYTHON]
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    return ["ruby", "-e", RUBY] if name == "ruby" else ["php", str(programs.SOURCES / "holds.php")]


@pytest.mark.parametrize("name", ["python3", "ruby", "php", "java"])
def test_of_a_runtime(name: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with running(command(name, tmp_path), LD_PRELOAD=splitting()) as process:
        answer(process)
        odd.wait_for(lambda: odd.state(process.pid) == "S")
        before = arenadump.summary(process.pid)["ledger"]
        split(process.pid)
        after = arenadump.summary(process.pid)["ledger"]
    assert sum(before[row] or 0 for row in ROWS[2:-1]) > 10 * MIB
    for row in ROWS:
        assert (before[row] is None) == (after[row] is None)
        assert abs((after[row] or 0) - (before[row] or 0)) < MIB, row
