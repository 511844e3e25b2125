# SPDX-License-Identifier: MIT
"""The inspector against the truth: a program that knows what it holds, glibc's mallinfo, gdb with symbols, the kernel.

Each scenario runs once under each glibc, is inspected from every side while it is parked, and is then trimmed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tools import debian, gdb_oracle, harness, programs

from arenascope.wire.dump import Dump
from arenascope.wire.dump_records import ChunkClass

pytestmark = pytest.mark.usefixtures("pages_stay")

PAGE = os.sysconf("SC_PAGESIZE")
HEAP_ROWS = ("in_use", "tcache", "fastbin", "stranded", "releasable", "withheld", "metadata")


@dataclass(frozen=True)
class Scenario:
    name: str
    options: tuple[str, ...] = ()
    tunables: str = ""

    def __str__(self) -> str:
        return self.name


def churn(name: str, seed: int = 1, threads: int = 4, tunables: str = "", **more: Any) -> Scenario:
    options = {"scenario": "churn", "seed": seed, "threads": threads, **more}
    words = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    return Scenario(name, tuple(words), tunables)


CACHES = churn("caches", scenario="caches")
WITHHELD = churn("withheld", scenario="withheld", threads=8)
SCENARIOS = [
    churn("seed-1"),
    churn("seed-2", seed=2, operations=40000),
    churn("seed-3", seed=3, threads=16, operations=60000),
    churn("main-thread-only", threads=0),
    churn("several-heaps", threads=2, slots=262144, operations=600000, biggest_log2=17),
    churn("burst", scenario="burst"),
    churn("aligned", scenario="aligned"),
    churn("foreign-sbrk", scenario="foreign-sbrk", threads=0),
    churn("no-brk", scenario="no-brk", threads=0),
    CACHES,
    WITHHELD,
    churn("one-arena", tunables="glibc.malloc.arena_max=1"),
    churn("no-tcache", tunables="glibc.malloc.tcache_count=0"),
    churn("much-mmapped", tunables="glibc.malloc.mmap_threshold=32768", biggest_log2=18),
    churn("huge-pages", tunables="glibc.malloc.hugetlb=1"),
    churn("large-tcache", tunables="glibc.malloc.tcache_max=4194304"),
]


@dataclass
class Reading:
    """All that was seen of one parked program."""

    libc: debian.Libc
    scenario: Scenario
    baseline: set[int]
    chunks: harness.Chunks
    summary: dict[str, Any]
    rss: tuple[int, int]  # by the kernel, before and after: it may take a file's page away, or have one read, meanwhile
    held: dict[int, tuple[int, int]]
    freed: list[tuple[int, int, int]]
    oracle: dict[str, Any]
    mallinfo: dict[str, int]
    trimmed: int  # bytes of anonymous memory that malloc_trim(0) gave back


@pytest.fixture(scope="module", params=SCENARIOS, ids=str)
def snapshot(
    request: pytest.FixtureRequest, libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump
) -> Iterator[Reading]:
    """The tunables that an older glibc does not know it ignores, and the scenario is a test of it all the same."""
    scenario = request.param
    command = harness.under(libc, churn_program, *scenario.options)
    with harness.Churn(command, tunables=scenario.tunables) as program:
        baseline = set(arenadump.chunks(program.pid)["in_use"])
        program.ask("go")
        chunks = arenadump.chunks(program.pid)
        rss_before = harness.smaps(program.pid, "Rss")
        summary = arenadump.summary(program.pid)
        rss = (rss_before, harness.smaps(program.pid, "Rss"))
        held, freed = program.held(), program.freed()
        oracle = gdb_oracle.take_snapshot(program.pid, libc.debug)
        mallinfo = program.mallinfo()
        before = harness.smaps(program.pid, "Anonymous")
        program.ask("trim")
        trimmed = before - harness.smaps(program.pid, "Anonymous")
        yield Reading(libc, scenario, baseline, chunks, summary, rss, held, freed, oracle, mallinfo, trimmed)


def test_in_use_is_what_the_program_holds(snapshot: Reading) -> None:
    in_use = snapshot.chunks["in_use"]
    assert snapshot.held.keys() - in_use.keys() == set(), "held, but not found in use"
    assert in_use.keys() - snapshot.held.keys() - snapshot.baseline == set(), (
        "found in use, but neither held nor libc's own"
    )
    # Beside the size stands a header of 8 bytes, 16 when mmapped.
    wrong = {a: (in_use[a], usable) for a, (_, usable) in snapshot.held.items() if in_use[a] - usable not in (8, 16)}
    assert wrong == {}


@pytest.mark.check
def test_under_the_libc_of_this_machine(arenadump: harness.Arenadump) -> None:
    """The libc is the machine's, not an unpacked one: what is held is found, and every resident byte is in one row."""
    program = programs.build("churn", "-lpthread")
    with harness.Churn([str(program), *SCENARIOS[0].options]) as target:
        baseline = arenadump.chunks(target.pid)["in_use"]
        target.ask("go")
        in_use, held = arenadump.chunks(target.pid)["in_use"], target.held()
        rss, summary = [harness.smaps(target.pid, "Rss")], arenadump.summary(target.pid)
        rss.append(harness.smaps(target.pid, "Rss"))
    assert len(held) > 1000
    assert held.keys() <= in_use.keys()
    assert in_use.keys() - held.keys() - baseline.keys() == set()
    assert {in_use[address] - usable for address, (_, usable) in held.items()} <= {8, 16}
    assert sum(summary["ledger"].values()) == summary["kernel"]["rss"]
    assert summary["kernel"]["rss"] in rss


@pytest.mark.parametrize("snapshot", [CACHES], indirect=True, ids=str)
def test_caches_are_what_the_program_freed(snapshot: Reading) -> None:
    assert snapshot.freed
    for address, requested, ordinal in snapshot.freed:
        size = max(32, (requested + 8 + 15) & ~15)
        if ordinal < snapshot.oracle["mp"]["tcache_count"]:
            assert snapshot.chunks["tcache"].get(address) == size
        elif size <= 128 and snapshot.libc.release < (2, 43):
            assert snapshot.chunks["fastbin"].get(address) == size
        else:
            assert address not in snapshot.chunks["in_use"]


def test_lists_are_what_gdb_walks(snapshot: Reading) -> None:
    threads, arenas = snapshot.oracle["threads"], snapshot.oracle["arenas"]
    assert set(snapshot.chunks["tcache"]) == {e - harness.HEADER for thread in threads for e in thread["entries"]}
    assert set(snapshot.chunks["fastbin"]) == {chunk for arena in arenas for chunk in arena["fastbins"]}
    assert set(snapshot.chunks["binned"]) == {chunk for arena in arenas for chunk in arena["binned"]}
    assert set(snapshot.chunks["top"]) == {arena["top"] for arena in arenas}


def test_nothing_is_unknown_or_torn(snapshot: Reading) -> None:
    assert snapshot.chunks["unknown"] == {}
    assert snapshot.summary["snapshot"]["torn_chunks"] == 0
    assert snapshot.summary["ledger"]["unknown"] == 0
    assert [w for w in snapshot.summary["warnings"] if w["code"] != "note"] == []


def test_ledger_sums_to_what_the_kernel_says(snapshot: Reading) -> None:
    ledger = snapshot.summary["ledger"]
    assert sum(ledger.values()) == snapshot.summary["kernel"]["rss"]
    assert snapshot.summary["kernel"]["rss"] in snapshot.rss
    for row in HEAP_ROWS:
        assert sum(arena["ledger"][row] for arena in snapshot.summary["arenas"]) == ledger[row], row


def test_summary_counts_what_chunks_lists(snapshot: Reading) -> None:
    for name in ("in_use", "tcache", "fastbin", "binned", "top"):
        in_heaps = {a: size for a, size in snapshot.chunks[name].items() if a not in snapshot.chunks.mmapped}
        assert snapshot.summary["chunks"][name] == tally(in_heaps), name
    held_or_cached = {**snapshot.chunks["in_use"], **snapshot.chunks["tcache"]}
    mmapped = {a: size for a, size in held_or_cached.items() if a in snapshot.chunks.mmapped}
    assert snapshot.summary["chunks"]["mmapped"] == tally(mmapped)


def test_fields_are_what_gdb_reads(snapshot: Reading) -> None:
    allocator, oracle = snapshot.summary["allocator"], snapshot.oracle
    assert int(allocator["main_arena"], 16) == oracle["main_arena"]
    assert int(allocator["mp"], 16) == oracle["mp_"]
    assert allocator["glibc"] == ".".join(map(str, oracle["version"]))
    for name, value in snapshot.summary["tunables"].items():
        if name in oracle["mp"]:
            assert value == oracle["mp"][name], name
    found = {int(arena["address"], 16): arena for arena in snapshot.summary["arenas"]}
    assert found.keys() == {arena["address"] for arena in oracle["arenas"]}
    for arena in oracle["arenas"]:
        for name in ("system_mem", "attached_threads"):
            assert found[arena["address"]][name] == arena[name], name


def test_counts_agree_with_mallinfo(snapshot: Reading) -> None:
    info, counts = snapshot.mallinfo, snapshot.summary["chunks"]
    assert info["arena"] == sum(arena["system_mem"] for arena in snapshot.summary["arenas"])
    assert info["ordblks"] == counts["binned"]["count"] + len(snapshot.summary["arenas"])
    assert info["smblks"] == counts["fastbin"]["count"]
    assert info["fsmblks"] == counts["fastbin"]["bytes"]
    assert info["fordblks"] == sum(counts[name]["bytes"] for name in ("fastbin", "binned", "top"))
    # A freed mmapped chunk that sits in a large tcache bin (2.42+) still counts as mapped.
    if snapshot.scenario.name != "large-tcache":
        assert info["hblks"] == counts["mmapped"]["count"]


def test_trim_returns_what_was_forecast(snapshot: Reading) -> None:
    forecast = snapshot.summary["forecast"]["malloc_trim"]
    assert abs(snapshot.trimmed - forecast) <= max(snapshot.trimmed // 100, 16 * PAGE)


@pytest.mark.parametrize("snapshot", [WITHHELD], indirect=True, ids=str)
def test_thread_tops_are_withheld(snapshot: Reading) -> None:
    """One free() of 32 MiB raises the trim threshold; then eight threads free all they had."""
    ledger, forecast = snapshot.summary["ledger"], snapshot.summary["forecast"]
    assert min(snapshot.rss) > 400 << 20
    assert ledger["in_use"] < 1 << 20
    assert forecast["deep_trim"] > 0.9 * max(snapshot.rss)
    if snapshot.libc.release < (2, 43):  # malloc_trim(0) gives next to nothing back
        assert ledger["withheld"] > 0.9 * max(snapshot.rss)
        assert ledger["releasable"] < 10 << 20
    else:  # it trims thread arenas' tops too
        assert forecast["malloc_trim"] > 0.8 * max(snapshot.rss)


def tally(chunks: dict[int, int]) -> dict[str, int]:
    return {"count": len(chunks), "bytes": sum(chunks.values())}


def test_sizes_of_all_arenas(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Several workers count them, and one where chunk records are written: both count what the records say."""
    command = [str(programs.build("churn", "-lpthread")), "--threads", "4"]
    with harness.Churn(command, directory=tmp_path) as program:
        program.ask("go")
        for name, words in (("some", ()), ("one", ("--chunks",))):
            arenadump.check("dump", *words, "--mode=freeze", "-o", tmp_path / name, program.pid)
    dump = Dump(tmp_path / "one")
    counted: Counter[tuple[int, int]] = Counter()
    for heap in range(len(dump.heaps)):
        chunks = dump.heap_chunks(heap)
        counted.update(zip(chunks.sizes.tolist(), chunks.classes.tolist()))
    states = {"in_use": ChunkClass.IN_USE, "tcache": ChunkClass.TCACHE, "fastbin": ChunkClass.FASTBIN}
    assert len(dump.arenas) > 2
    for sizes in (dump.sizes, Dump(tmp_path / "some").sizes):
        assert len(sizes) > 100
        for name, state in states.items():
            listed = {int(each["chunk_size"]): int(each[name]) for each in sizes if each[name]}
            assert listed == {size: count for (size, kind), count in counted.items() if kind == state}, name
