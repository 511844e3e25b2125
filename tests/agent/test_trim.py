# SPDX-License-Identifier: MIT
"""Giving memory back from inside (inspector/trim), under each glibc: as much as was forecast, and never a byte in use.

The code runs preloaded (tests/programs/trim_preload), in programs that know what they hold; arenadump and gdb inspect
the heap from outside, before and afterwards.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest
from tools import debian, gdb_oracle, harness, kernel, programs, trimmer

pytestmark = pytest.mark.usefixtures("pages_stay")

HEAP_ROWS = ("in_use", "tcache", "fastbin", "stranded", "releasable", "withheld", "metadata")
BOUNDED = 5_000_000
SHORTEST = 1  # nanoseconds: slices as short as they get
MIB = 1 << 20


@pytest.fixture(scope="session")
def library() -> Path:
    return trimmer.build()


@pytest.fixture(scope="session")
def storm_program() -> Path:
    return programs.build_portable("trim_storm")


class Trimmed(harness.Churn):
    """A program with the library preloaded."""

    def __init__(self, command: list[str], trim: trimmer.Trimmer, tunables: str) -> None:
        super().__init__(command, tunables=tunables)
        self.trim = trim


@contextmanager
def started(
    library: Path, directory: Path, command: list[str], tunables: str = "", **environment: str
) -> Iterator[Trimmed]:
    trim = trimmer.Trimmer(library, directory)
    (directory / "trim").unlink(missing_ok=True)
    words = [f"{name}={value}" for name, value in {**trim.environment, **environment}.items()]
    program = Trimmed(["env", *words, *command], trim, tunables)
    with program:
        trim.forecast()  # it has found its way, and all the memory that it needs itself
        yield program


Start = Callable[..., AbstractContextManager[Trimmed]]


@pytest.fixture
def start(library: Path, tmp_path: Path) -> Start:
    """Starts a command; its other arguments are tunables and the environment."""
    return partial(started, library, tmp_path)


def resident(arenadump: harness.Arenadump, pid: int) -> int:
    """What the kernel says is in memory of all of malloc's heaps."""
    return sum(sum(arena["ledger"][row] for row in HEAP_ROWS) for arena in arenadump.summary(pid)["arenas"])


def assert_flawless(arenadump: harness.Arenadump, program: Trimmed, libc: debian.Libc) -> None:
    """The heap is one that malloc could have made, and holds what the program knows that it holds."""
    summary = arenadump.summary(program.pid)
    assert summary["snapshot"]["torn_chunks"] == 0
    assert [w for w in summary["warnings"] if w["code"] != "note"] == []
    oracle = gdb_oracle.take_snapshot(program.pid, libc.debug)
    chunks = arenadump.chunks(program.pid)
    binned = [chunk for arena in oracle["arenas"] for chunk in arena["binned"]]
    assert len(binned) == len(set(binned))
    assert set(chunks["binned"]) == set(binned)
    assert set(chunks["top"]) == {arena["top"] for arena in oracle["arenas"] if arena["system_mem"]}
    assert program.held().keys() <= chunks["in_use"].keys()
    check_links(program.pid, binned)


def check_links(pid: int, binned: list[int]) -> None:
    """Every list of free chunks is linked both ways, and so are the sizes within large bins, largest first."""
    with Path(f"/proc/{pid}/mem").open("rb") as memory:

        def words(chunk: int) -> tuple[int, ...]:
            memory.seek(chunk + 8)
            return struct.unpack("<5Q", memory.read(40))

        for chunk in binned:
            size, forward, back, smaller, larger = words(chunk)
            assert words(forward)[2] == chunk
            assert words(back)[1] == chunk
            if size < 1024 or not smaller:
                continue
            assert words(smaller)[4] == chunk
            assert words(larger)[3] == chunk
            assert smaller == chunk or words(smaller)[0] != size
            assert back not in binned or words(back)[0] > size


def bins_of(program: Trimmed, libc: debian.Libc) -> list[int]:
    """The free chunks of all bins, in the order in which malloc would come upon them."""
    return [chunk for arena in gdb_oracle.take_snapshot(program.pid, libc.debug)["arenas"] for chunk in arena["binned"]]


@pytest.mark.parametrize("hold", [0, BOUNDED])
def test_eight_threads_that_freed_all_they_had(
    libc: debian.Libc, start: Start, churn_program: Path, arenadump: harness.Arenadump, hold: int
) -> None:
    command = harness.under(libc, churn_program, "--scenario", "withheld", "--threads", "8")
    with start(command) as program:
        program.ask("go")
        assert harness.smaps(program.pid, "Anonymous") > 400 * MIB
        program.trim.run(hold_ns=hold)
        ledger = arenadump.summary(program.pid)["ledger"]
        assert ledger["releasable"] == 0
        # What a plain trim does not do. (From 2.43 on little is withheld here, if anything.)
        if libc.release < (2, 43):
            assert ledger["withheld"] > 90 * MIB
        deep = program.trim.run(deep=True, hold_ns=hold)
        assert deep.sum("returned") == ledger["withheld"]
        ledger = arenadump.summary(program.pid)["ledger"]
        assert ledger["releasable"] == ledger["withheld"] == 0
        # From 2.43 tcaches hold more than twice as much, here and there: the pages on which that lies stay.
        pages = 2560 if libc.release < (2, 43) else 5120
        assert harness.smaps(program.pid, "Anonymous") < pages * kernel.PAGE


SCENARIOS = {
    "caches": ("--scenario", "caches", "--threads", "4"),
    "churn": ("--scenario", "churn", "--threads", "4"),
    "burst": ("--scenario", "burst"),
    "several-heaps": ("--threads", "2", "--slots", "65536", "--operations", "300000", "--biggest-log2", "17"),
    "foreign-sbrk": ("--scenario", "foreign-sbrk", "--threads", "0"),
    "no-brk": ("--scenario", "no-brk", "--threads", "0"),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_was_forecast_comes_back(
    libc: debian.Libc,
    start: Start,
    churn_program: Path,
    arenadump: harness.Arenadump,
    scenario: str,
) -> None:
    command = harness.under(libc, churn_program, *SCENARIOS[scenario])
    with start(command) as program:
        program.ask("go")
        outside = arenadump.summary(program.pid)["forecast"]
        # In "caches" some 17 KB in a row become free: of pages of 16 KiB perhaps not a whole one.
        assert outside["malloc_trim"] > 0 or (scenario == "caches" and kernel.PAGE > 4096)
        forecast = program.trim.forecast(hold_ns=SHORTEST)
        assert forecast.sum("releasable") == outside["malloc_trim"]
        assert forecast.sum("releasable") + forecast.sum("withheld") == outside["deep_trim"]
        before = resident(arenadump, program.pid)
        outcome = program.trim.run(deep=True, hold_ns=SHORTEST)
        assert outcome.sum("returned") == outside["deep_trim"] == before - resident(arenadump, program.pid)
        assert not outcome.note
        program.ask("churn 20000")
        assert_flawless(arenadump, program, libc)


def test_one_arena_alone(own_libc: debian.Libc, start: Start, churn_program: Path) -> None:
    with start(harness.under(own_libc, churn_program, *SCENARIOS["burst"])) as program:
        program.ask("go")
        forecast = program.trim.forecast()
        assert len(forecast.arenas) > 2
        chosen = max(forecast.arenas, key=lambda arena: arena.releasable)
        outcome = program.trim.run(deep=True, arena=chosen.address)
        assert [arena.address for arena in outcome.arenas] == [chosen.address]
        assert outcome.sum("returned") == chosen.releasable + chosen.withheld
        rest = program.trim.forecast()
        assert sum(a.releasable + a.withheld for a in rest.arenas) == sum(
            a.releasable + a.withheld for a in forecast.arenas if a.address != chosen.address
        )
        assert "there is no arena" in program.trim.run(arena=chosen.address + 16).error


@pytest.mark.nearest
@pytest.mark.parametrize("where", ["unsorted", "sorted"])
def test_a_list_is_turned_round_and_nothing_else(
    libc: debian.Libc, start: Start, storm_program: Path, arenadump: harness.Arenadump, where: str
) -> None:
    command = harness.under(libc, storm_program, "1", "20000", "1")
    with start(command) as program:
        program.ask("comb 4000 9000")
        if where == "sorted":
            program.ask("sort")
        before = bins_of(program, libc)
        assert len(before) >= 4000
        outside = arenadump.summary(program.pid)["forecast"]["malloc_trim"]
        assert outside > 4000 * 4096
        program.trim.run()
        assert bins_of(program, libc) == before, "without a bound nothing is written"
        program.ask("comb 4000 9000")
        if where == "sorted":
            program.ask("sort")
        before = bins_of(program, libc)
        assert program.trim.run(hold_ns=SHORTEST).sum("returned") > 4000 * 4096
        after = bins_of(program, libc)
        assert after != before
        assert sorted(after) == sorted(before)
        assert_flawless(arenadump, program, libc)
        program.ask("storm 0.3")
        program.ask("check")


@pytest.mark.nearest
@pytest.mark.parametrize("hold", [0, 200_000])
def test_storm(libc: debian.Libc, start: Start, storm_program: Path, arenadump: harness.Arenadump, hold: int) -> None:
    with start(harness.under(libc, storm_program, "8", "20000", "1")) as program:
        program.trim.tell(f"repeat 0.4 1 {hold}")
        program.ask("storm 0.5")
        outcome = program.trim.answer()
        assert outcome.trims > 0, outcome
        program.ask("check")
        assert_flawless(arenadump, program, libc)
        program.ask("free 60")
        assert program.trim.run(deep=True, hold_ns=hold).sum("returned") > MIB
        program.trim.tell(f"repeat 1 1 {hold}")
        program.ask("fork 3")
        program.trim.answer()
        program.ask("check")
        assert_flawless(arenadump, program, libc)


MODES = {
    "one-arena": ("glibc.malloc.arena_max=1", {}),
    "no-tcache": ("glibc.malloc.tcache_count=0", {}),
    "large-tcache": ("glibc.malloc.tcache_max=4194304", {}),
    "transparent-huge-pages": ("glibc.malloc.hugetlb=1", {}),
    "huge-pages": ("glibc.malloc.hugetlb=2", {}),
    "check": ("", {"MALLOC_CHECK_": "3"}),
    "perturb": ("", {"MALLOC_PERTURB_": "165"}),
}


@pytest.mark.nearest
@pytest.mark.parametrize("mode", MODES)
def test_storm_in_every_mode(libc: debian.Libc, start: Start, storm_program: Path, mode: str) -> None:
    tunables, environment = MODES[mode]
    command = harness.under(libc, storm_program, "4", "10000", "7")
    with start(command, tunables, **environment) as program:
        program.trim.tell("repeat 0.3 1 200000")
        program.ask("storm 0.4")
        outcome = program.trim.answer()
        assert outcome.trims > 0, outcome
        program.ask("free 80")
        program.trim.run(deep=True)
        program.ask("check")
        program.ask("storm 0.2")
        program.ask("check")


def test_locked_memory_stays(own_libc: debian.Libc, start: Start, storm_program: Path) -> None:
    with start(harness.under(own_libc, storm_program, "1", "20000", "1")) as program:
        program.ask("comb 2000 9000")
        program.ask("lock")
        outcome = program.trim.run(deep=True, hold_ns=BOUNDED)
        assert outcome.sum("returned") == 0
        assert re.search(r"the kernel keeps \d+ bytes .*mlock", outcome.note)
        program.ask("check")


DAMAGE = {
    "no size": (8, 0),
    "marked as mmapped": (8, 9003),
    "a size that ends elsewhere": (8, 0x3001),
    "a size beyond the heap": (8, 2**47 + 1),
    "forward to nothing": (16, 0),
    "forward to no memory": (16, 0x7F0000000000),
    "forward to the end of memory": (16, 2**64 - 16),
    "back to nothing": (24, 0),
    "back to nowhere aligned": (24, 0x41),
    "back to no memory": (24, 0x7F0000000000),
}


def is_left_alone(program: Trimmed, chunk: int, field: int, value: int, what: str) -> None:
    """With that word of a chunk damaged no trim touches the arena, or says what it would give; then it is mended."""
    with Path(f"/proc/{program.pid}/mem").open("r+b", buffering=0) as memory:

        def write(word: bytes) -> None:
            memory.seek(chunk + field)
            memory.write(word)

        memory.seek(chunk + field)
        sound = memory.read(8)
        write(struct.pack("<Q", value))
        for hold in (BOUNDED, 0):
            outcome = program.trim.run(hold_ns=hold)
            arena = outcome.arenas[0]
            assert arena.skipped, what
            assert arena.releasable == arena.withheld == trimmer.UNKNOWN
            assert "was skipped" in outcome.note
        memory.seek(chunk + field)
        assert memory.read(8) == struct.pack("<Q", value), "not a word of it is written"
        write(sound)


def test_hands_off_a_corrupt_heap(own_libc: debian.Libc, start: Start, storm_program: Path) -> None:
    with start(harness.under(own_libc, storm_program, "1", "20000", "1")) as program:
        program.ask("comb 300 9000")
        chunk = bins_of(program, own_libc)[150]
        for what, (field, value) in DAMAGE.items():
            is_left_alone(program, chunk, field, value, what)
        assert not program.trim.run(hold_ns=BOUNDED).arenas[0].skipped
        program.ask("check")


def test_hands_off_corrupt_fastbins(
    libc: debian.Libc, start: Start, storm_program: Path, arenadump: harness.Arenadump
) -> None:
    """malloc_trim begins with these, and ends a program in which one is damaged."""
    if libc.release >= (2, 43):
        return
    with start(harness.under(libc, storm_program, "1", "20000", "1")) as program:
        program.ask("comb 100 64")
        chunks = sorted(arenadump.chunks(program.pid)["fastbin"])
        chunk = chunks[len(chunks) // 2]
        itself = chunk >> 12 ^ chunk if libc.release >= (2, 32) else chunk
        for what in ("no size", "a size that ends elsewhere", "forward to no memory"):
            is_left_alone(program, chunk, *DAMAGE[what], what)
        is_left_alone(program, chunk, 16, 0x41, "forward to nowhere aligned")
        is_left_alone(program, chunk, 16, itself, "forward to itself")
        assert not program.trim.run().arenas[0].skipped
        program.ask("check")


def test_what_malloc_trim_does_is_not_known_as_a_number(
    own_libc: debian.Libc, start: Start, storm_program: Path
) -> None:
    with start(harness.under(own_libc, storm_program, "1", "20000", "1")) as program:
        program.ask("comb 300 9000")
        (arena, *_) = program.trim.run().arenas
        assert arena.returned > 300 * 4096
        assert arena.released == arena.longest_hold_ns == trimmer.UNKNOWN
        program.ask("comb 300 9000")
        (arena, *_) = program.trim.run(hold_ns=BOUNDED).arenas
        assert arena.released >= arena.returned > 300 * 4096
        assert arena.longest_hold_ns > 0
