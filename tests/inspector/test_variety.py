# SPDX-License-Identifier: MIT
"""Random settings of malloc, held against a program that knows every block in use (tests/programs/variety.c).

A configuration follows from its seed: GLIBC_TUNABLES, libcs that dlmopen loads, threads, sizes, and whether it forks.
`VARIETY_SEED=1000 VARIETY_COUNT=100` has other ones, or more (`make variety`): each is tried under all of the libcs.
"""

from __future__ import annotations

import os
import random
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tools import debian, harness, programs, tiers

FIRST = int(os.environ.get("VARIETY_SEED", "0"))
COUNT = int(os.environ.get("VARIETY_COUNT", "8"))
DAILY = range(2)  # the seeds of `make test`
PAGE = os.sysconf("SC_PAGESIZE")
# Chance, and values, of each tunable. The thresholds lie on both sides of a tcache_perthread_struct's size.
TUNABLES: dict[str, tuple[float, list[int]]] = {
    "tcache_count": (0.35, [0, 1, 2, 7, 16, 100, 127]),
    "tcache_max": (0.2, [0, 32, 200, 1032, 65536, 4 << 20]),
    "mmap_threshold": (0.45, [1, 64, 256, 512, 600, 656, 760, 800, 1024, 4096, 32768, 1 << 20, 32 << 20]),
    "mmap_max": (0.1, [0, 1, 10, 65536]),
    "arena_max": (0.4, [1, 2, 3, 8]),
    "top_pad": (0.3, [0, 1, 4096, 65536, 1 << 20, 5 << 20]),
    "trim_threshold": (0.3, [0, 4096, 1 << 20, 64 << 20]),
    "mxfast": (0.3, [0, 16, 64, 160]),
    "perturb": (0.25, [1, 85, 255]),
    "hugetlb": (0.2, [1]),
}


@dataclass(frozen=True)
class Configuration:
    tunables: str
    options: list[str]
    fork: bool


def configuration(seed: int) -> Configuration:
    die = random.Random(seed)
    tunables = {name: die.choice(values) for name, (chance, values) in TUNABLES.items() if die.random() < chance}
    options = {
        "threads": die.choice([0, 1, 2, 4, 9, 20]),
        "spaces": die.choice([0, 0, 1, 2]),
        "seed": seed,
        "operations": die.choice([10, 300, 3000, 8000]),
        "biggest-log2": die.choice([10, 14, 18, 21, 23]),
    }
    if options["spaces"] and options["threads"]:
        # To count processors the libc of another namespace would use a locale that threads do not have there (2.31).
        tunables.setdefault("arena_max", 64)
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return Configuration(
        ":".join(f"glibc.malloc.{name}={value}" for name, value in tunables.items()), words, die.random() < 0.4
    )


@pytest.fixture(scope="session")
def variety() -> Path:
    return programs.build_portable("variety")


def zeros(pid: int, chunk: int, size: int) -> bool:
    with Path(f"/proc/{pid}/mem").open("rb") as memory:
        memory.seek(chunk + harness.HEADER)
        return not any(memory.read(min(size, 640)))


def check(arenadump: harness.Arenadump, pid: int, held: dict[int, tuple[int, int]]) -> dict[str, Any]:
    """The snapshot must be exact and right; or say what it cannot tell, and be right about everything else."""
    chunks, summary = arenadump.chunks(pid), arenadump.summary(pid)
    found = chunks["in_use"]
    doubts = [w["text"] for w in summary["warnings"] if w["code"] == "estimated"]
    assert all("empty tcaches" in doubt for doubt in doubts)
    assert {w["code"] for w in summary["warnings"]} <= {"note", "allocator", "estimated"}, summary["warnings"]
    assert summary["snapshot"]["exact"] == (not doubts)
    assert held.keys() - found.keys() == set(), "held, but not found in use"
    extra = found.keys() - held.keys()
    assert doubts or extra == set(), "found in use, but not held"
    assert all(zeros(pid, chunk, found[chunk]) for chunk in extra), "found in use, not held, and no empty tcache"
    wrong = {a: (found[a], usable) for a, (_, usable) in held.items() if found[a] - usable not in (8, 16)}
    assert wrong == {}
    assert chunks["unknown"] == {}
    known = {row: held for row, held in summary["ledger"].items() if held is not None}
    # The program's own malloc, which uses glibc's, cannot be located.
    assert summary["ledger"].keys() - known.keys() <= {"other_malloc"}
    assert sum(known.values()) == summary["kernel"]["rss"]
    return summary


@pytest.mark.parametrize("seed", tiers.daily(range(FIRST, FIRST + COUNT), DAILY, part="variety"))
def test_what_is_in_use(seed: int, libc: debian.Libc, variety: Path, arenadump: harness.Arenadump) -> None:
    of = configuration(seed)
    print(f"GLIBC_TUNABLES={of.tunables} variety {' '.join(of.options)}, then fork: {of.fork}")
    with harness.Churn(harness.under(libc, variety, *of.options), tunables=of.tunables) as program:
        program.ask("go")
        summary = check(arenadump, program.pid, program.held())
        if of.fork:
            child = int(program.ask("fork")[0][1])
            try:
                check(arenadump, child, program.held())
            finally:
                os.kill(child, signal.SIGKILL)
        before = harness.smaps(program.pid, "Anonymous")
        program.ask("trim")
        returned = before - harness.smaps(program.pid, "Anonymous")
        forecast = summary["forecast"]["malloc_trim"]
        assert abs(returned - forecast) <= max(returned // 100, 16 * PAGE)


# What random settings found, each by itself.


def take_snapshot(
    arenadump: harness.Arenadump, libc: debian.Libc, variety: Path, tunables: str, options: str, *, fork: bool = False
) -> dict[str, Any]:
    with harness.Churn(harness.under(libc, variety, *options.split()), tunables=tunables) as program:
        program.ask("go")
        if not fork:
            return check(arenadump, program.pid, program.held())
        child = int(program.ask("fork")[0][1])
        try:
            return check(arenadump, child, program.held())
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("threshold", [64, 512, 656])
def test_a_tcache_in_a_map_of_its_own(
    threshold: int, libc: debian.Libc, variety: Path, arenadump: harness.Arenadump
) -> None:
    tunables = f"glibc.malloc.mmap_threshold={threshold}"
    summary = take_snapshot(arenadump, libc, variety, tunables, "--threads 2 --operations 3000 --biggest-log2 12")
    assert summary["snapshot"]["exact"]
    assert summary["chunks"]["tcache"]["count"] > 0


def test_all_is_mmapped(libc: debian.Libc, variety: Path, arenadump: harness.Arenadump) -> None:
    """Then main_arena is never used, however many threads are attached to it."""
    tunables = "glibc.malloc.mmap_threshold=1:glibc.malloc.arena_max=1"
    summary = take_snapshot(arenadump, libc, variety, tunables, "--threads 4 --operations 300 --biggest-log2 12")
    assert summary["snapshot"]["exact"]
    assert summary["allocator"]["malloc"] == "unknown"  # the program's own, which passes everything on
    assert len(summary["arenas"]) == 1


@pytest.mark.parametrize("arenas", [1, 8])
def test_caches_that_no_thread_has(arenas: int, libc: debian.Libc, variety: Path, arenadump: harness.Arenadump) -> None:
    """After a fork the parent's other threads are gone, and what they cached stays where it is."""
    tunables = f"glibc.malloc.arena_max={arenas}"
    options = "--threads 4 --operations 3000 --biggest-log2 12"
    summary = take_snapshot(arenadump, libc, variety, tunables, options, fork=True)
    threads = sum(thread["tcache_bytes"] for arena in summary["arenas"] for thread in arena["threads"])
    lost = summary["mallocs"][0]["lost_tcaches"]
    assert lost["tcaches"] == 3  # one of the four ended before
    assert lost["bytes"] > 0
    assert summary["chunks"]["tcache"]["bytes"] == threads + lost["bytes"]
    note = next(w for w in summary["warnings"] if "no thread has" in w["text"])
    assert note["code"] == "note"
    assert str(lost["bytes"]) in note["text"]


def test_empty_caches_that_no_thread_has(libc: debian.Libc, variety: Path, arenadump: harness.Arenadump) -> None:
    """Up to 2.41 an empty tcache is all zeros; of threads that only allocated nothing else is left."""
    summary = take_snapshot(
        arenadump, libc, variety, "glibc.malloc.arena_max=1", "--threads 8 --operations 1", fork=True
    )
    assert summary["snapshot"]["exact"]
    # Two of the eight ended before. From 2.42 on a thread makes a tcache when it first frees something.
    assert summary["mallocs"][0]["lost_tcaches"]["tcaches"] == (0 if libc.release >= (2, 42) else 6)


def test_several_libcs_side_by_side(libc: debian.Libc, variety: Path, arenadump: harness.Arenadump) -> None:
    """Their main arenas are made of maps, which lie among each other's."""
    options = "--spaces 2 --threads 4 --operations 8000 --biggest-log2 18"
    for seed in range(3):
        summary = take_snapshot(arenadump, libc, variety, "glibc.malloc.arena_max=8", f"{options} --seed {seed}")
        assert len({arena["malloc"] for arena in summary["arenas"]}) == 3


def test_three_fenceposts(libc: debian.Libc, variety: Path, arenadump: harness.Arenadump) -> None:
    """What is left of a top may be as small as the fenceposts behind it."""
    with harness.Churn(harness.under(libc, variety, "--spaces", "1")) as program:
        program.ask("fence")
        summary = check(arenadump, program.pid, program.held())
        assert [arena["heaps"] for arena in summary["arenas"] if arena["malloc"] == 1] == [2]


@pytest.mark.parametrize("perturb", [0, 85, 170])
def test_an_aligned_chunk_that_moved(
    perturb: int, libc: debian.Libc, variety: Path, arenadump: harness.Arenadump
) -> None:
    """Its map begins with the header that the map was made with, whose size is right: only the chunk's place is not."""
    tunables = f"glibc.malloc.mmap_threshold=1024:glibc.malloc.perturb={perturb}"
    with harness.Churn(harness.under(libc, variety), tunables=tunables) as program:
        program.ask("move")
        assert check(arenadump, program.pid, program.held())["snapshot"]["exact"]


@pytest.mark.parametrize("left", [16, 32, 48])
def test_the_top_at_a_page(left: int, libc: debian.Libc, variety: Path, arenadump: harness.Arenadump) -> None:
    """malloc_trim spares MINSIZE and one byte of the main arena's top: 32 bytes before a page are not enough."""
    with harness.Churn(harness.under(libc, variety)) as program:
        program.ask("trim")  # has its symbol bound
        program.ask(f"fit {left}")
        summary = check(arenadump, program.pid, program.held())
        assert -int(summary["arenas"][0]["top"], 16) % PAGE == left
        before = harness.smaps(program.pid, "Anonymous")
        program.ask("trim")
        returned = before - harness.smaps(program.pid, "Anonymous")
        assert returned >= PAGE
        assert summary["forecast"]["malloc_trim"] == returned


def test_a_child_whose_thread_has_no_tcache(libc: debian.Libc, variety: Path, arenadump: harness.Arenadump) -> None:
    """From 2.43 on its word leads to a constant of libc: read from the file, of which the child has no page."""
    tunables = "glibc.malloc.mmap_threshold=256:glibc.malloc.top_pad=1:glibc.malloc.mxfast=0"
    options = "--threads 20 --seed 24 --operations 10 --biggest-log2 23"
    take_snapshot(arenadump, libc, variety, tunables, options, fork=True)
