# SPDX-License-Identifier: MIT
"""The memory of gperftools' tcmalloc, found from outside, held against what it says of itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools import cores, debian, harness, programs
from tools.mallocs import MIB, allocator, answer, check_restless, check_rows, library, running
from tools.preload import preloadable

CHUNK = 8 * MIB  # of its own memory, from the kernel
# Debian's gperftools by suite: 2.8, 2.10, 2.16, 2.18.
TCMALLOCS = {
    "bullseye": "libtcmalloc-minimal4",
    "bookworm": "libtcmalloc-minimal4",
    "trixie": "libtcmalloc-minimal4t64",
    "forky": "libtcmalloc-minimal4t64",
}


def under_tcmalloc(suite: str, program: Path, *args: str) -> list[str]:
    """The command that runs a program with the libc and the tcmalloc of a suite."""
    packages = [TCMALLOCS[suite], "libstdc++6", "libgcc-s1"]
    root = debian.unpack("tcmalloc", suite, debian.NATIVE, {"root": packages})
    command = debian.libc(suite).command(program, *args)
    preload, folder = next(root.glob("root/usr/lib/*/libtcmalloc_minimal.so.4")), command[2]
    libraries = {path.parent for name in ("libstdc++.so.6", "libgcc_s.so.1") for path in root.glob(f"root/**/{name}")}
    path = ":".join([folder, *map(str, libraries)])
    return [command[0], "--library-path", path, "--preload", str(preloadable(preload)), *command[3:]]


@contextmanager
def with_tcmalloc(command: Sequence[str | Path], **environment: str) -> Iterator[tuple[int, int]]:
    """The PID of a program that holds blocks of tcmalloc's, and what tcmalloc has taken from the kernel for them."""
    with running(command, **environment) as process:
        says = [answer(process).split() for _ in range(3)]
        assert [words[0] for words in says] == [
            "generic.heap_size",
            "tcmalloc.pageheap_free_bytes",
            "tcmalloc.pageheap_unmapped_bytes",
        ]
        assert all(int(words[1]) > 0 for words in says)
        yield process.pid, int(says[0][1])


@pytest.mark.parametrize("mode", ["freeze", "clone", "live"])
def test_tcmalloc_has_all_that_it_says(arenadump: harness.Arenadump, mode: str) -> None:
    with with_tcmalloc([programs.build("tcmalloc")], LD_PRELOAD=library("tcmalloc_minimal")) as (pid, taken):
        summary = arenadump.summary(pid, f"--mode={mode}")
    found = allocator(summary, "tcmalloc")
    assert found["found"]
    assert found["evidence"].endswith("together they are what tcmalloc counts as taken, as free, and as returned")
    assert found["committed"] == taken
    assert found["size"] == taken + CHUNK
    assert 'the row "other malloc"' in summary["allocator"]["not_glibc"]["memory"]
    check_rows(summary, found["resident"])


@pytest.mark.parametrize("suite", TCMALLOCS)
def test_releases_of_tcmalloc(arenadump: harness.Arenadump, suite: str) -> None:
    """Their heap begins behind the program's variables, and goes on where the kernel maps it."""
    with with_tcmalloc(under_tcmalloc(suite, programs.build_portable("tcmalloc"))) as (pid, taken):
        found = allocator(arenadump.summary(pid), "tcmalloc")
    assert found["evidence"].endswith("together they are what tcmalloc counts as taken, as free, and as returned")
    assert found["size"] - CHUNK == found["committed"] == taken


def test_large_tcmalloc_has_several_chunks_of_its_own(arenadump: harness.Arenadump) -> None:
    """A leaf of its map takes 2 MiB, for each 2 GiB of addresses. Of older chunks, what is known to be used counts."""
    with with_tcmalloc([programs.build("tcmalloc"), "40"], LD_PRELOAD=library("tcmalloc_minimal")) as (pid, taken):
        summary = arenadump.summary(pid)
    found = allocator(summary, "tcmalloc")
    assert found["committed"] == taken > 11 << 30
    assert CHUNK < found["size"] - taken <= 2 * CHUNK
    check_rows(summary, found["resident"])


@pytest.mark.parametrize("where", ["TCMALLOC_SKIP_SBRK", "TCMALLOC_SKIP_MMAP"])
def test_where_tcmallocs_memory_comes_from(arenadump: harness.Arenadump, where: str) -> None:
    environment = {"LD_PRELOAD": library("tcmalloc_minimal"), where: "1"}
    with with_tcmalloc([programs.build("tcmalloc")], **environment) as (pid, taken):
        found = allocator(arenadump.summary(pid), "tcmalloc")
    assert found["size"] - CHUNK == found["committed"] == taken


def test_wherever_it_stands(arenadump: harness.Arenadump) -> None:
    check_restless(arenadump, "tcmalloc", [programs.build("restless")], LD_PRELOAD=library("tcmalloc_minimal"))


def test_tcmalloc_in_a_core(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    if not shutil.which("gcore"):
        pytest.skip("gdb is not installed")
    with with_tcmalloc([programs.build("tcmalloc")], LD_PRELOAD=library("tcmalloc_minimal")) as (pid, taken):
        core = cores.gcore(pid, tmp_path)
    found = allocator(arenadump.summary(core), "tcmalloc")
    assert found["size"] - CHUNK == found["committed"] == taken
    assert found["resident"] is None
