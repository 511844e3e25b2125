# SPDX-License-Identifier: MIT
"""The page map when memory is short, locked, huge, shared or taken back: what is said of every page against the kernel.

Each scenario is looked at by freeze and by snapshot. Before and after, smaps and pagemap are read here, page by page:
the dump has to say the same, and to look must have changed nothing. What a machine does not allow (swap, huge pages,
cgroups: see docs/ledger.md, "Under pressure") is an expected failure that gives the kernel's own refusal.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import numpy as np
import pytest
from conftest import fetched
from numpy.typing import NDArray
from tools import debian, harness, kernel

from arenascope import format as fmt
from arenascope.dump import Dump

SUITES = ("bullseye", "bookworm", "forky")  # 2.31, 2.36, 2.43: three generations of malloc's structures
MODES = ("freeze", "snapshot")
LARGE = ("--slots", "16384", "--operations", "60000")
CAP_SYS_NICE, PR_CAPBSET_DROP = 23, 24


@pytest.fixture(scope="module", params=SUITES)
def libc(request: pytest.FixtureRequest) -> debian.Libc:
    return fetched(request.param, "amd64")


@pytest.fixture(scope="module")
def swap() -> Iterator[None]:
    """A swap file, for as long as this module's tests run."""
    directory = harness.ROOT / ".cache"
    directory.mkdir(exist_ok=True)
    with allowed(kernel.swap_file(directory, 512)):
        yield


@contextlib.contextmanager
def allowed(context: contextlib.AbstractContextManager[object]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(context)
        except kernel.NotAllowedError as reason:
            pytest.xfail(f"this machine does not allow it: {reason}")
        yield


@dataclass(frozen=True)
class Scenario:
    name: str
    options: tuple[str, ...] = ()
    tunables: str = ""
    first: str = ""  # a command before the scenario runs
    then: str = ""  # and one after it
    machine: Callable[[], contextlib.AbstractContextManager[object]] = (
        contextlib.nullcontext
    )  # what the machine is like meanwhile
    press: Callable[[int], object] = kernel.smaps  # what is done to the process from outside: nothing

    def __str__(self) -> str:
        return self.name


def own_pages(pid: int) -> list[kernel.Mapping]:
    return [m for m in kernel.smaps(pid) if m.anonymous and m.writable and m.counts["Rss"] > 0]


def page_out(pid: int) -> None:
    kernel.advise(pid, [(m.start, m.end) for m in own_pages(pid)], kernel.MADV_PAGEOUT)


def page_out_by_halves(pid: int) -> None:
    """Every other 28 KiB: the holes fall differently into every window that is read."""
    step = 7 * kernel.PAGE
    spans = [(at, min(at + step, m.end)) for m in own_pages(pid) for at in range(m.start, m.end, 2 * step)]
    kernel.advise(pid, spans, kernel.MADV_PAGEOUT)


def collapse(pid: int) -> None:
    """As khugepaged would, but now."""
    for m in own_pages(pid):
        first = (m.start + kernel.HUGE - 1) // kernel.HUGE * kernel.HUGE
        spans = [(at, at + kernel.HUGE) for at in range(first, m.end - kernel.HUGE + 1, 2 * kernel.HUGE)]
        kernel.advise(pid, spans, kernel.MADV_COLLAPSE)


def merge_same_pages(pid: int) -> None:
    """Lets the kernel merge what is alike (KSM) until it finds no more."""
    merged, deadline = -1, time.monotonic() + 10
    while (now := kernel.total(kernel.smaps(pid), "KSM")) != merged or now == 0:
        merged = now
        assert time.monotonic() < deadline, "nothing was merged"
        time.sleep(0.3)
    (kernel.KSM / "run").write_text("0")  # what is merged stays so


@contextlib.contextmanager
def merging() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name, value in (
            ("pages_to_scan", "20000"),
            ("use_zero_pages", "1"),
            ("sleep_millisecs", "5"),
            ("run", "1"),
        ):
            stack.enter_context(kernel.setting(kernel.KSM / name, value))
        yield


@contextlib.contextmanager
def huge_pages(when: str) -> Iterator[None]:
    """Transparent huge pages as set, and khugepaged as good as asleep: it would change what we compare."""
    with kernel.setting(kernel.KHUGEPAGED, "1"), kernel.setting(kernel.THP, when):
        yield


SWAPPED = [
    Scenario("swapped", press=page_out),
    Scenario("swapped-by-halves", LARGE, press=page_out_by_halves),
    Scenario("swapped-perturbed", tunables="glibc.malloc.perturb=165", press=page_out_by_halves),
    # Pages that the program gave away and nobody took yet: under pressure they are dropped and not swapped.
    Scenario("given-away-and-taken", then="advise 8", press=page_out),
]
HUGE = [
    Scenario("huge-always", LARGE, machine=lambda: huge_pages("always")),
    Scenario("huge-never", tunables="glibc.malloc.hugetlb=1", machine=lambda: huge_pages("never")),
    Scenario("huge-advised", LARGE, "glibc.malloc.hugetlb=1", machine=lambda: huge_pages("madvise")),
    Scenario("huge-collapsed", LARGE, machine=lambda: huge_pages("madvise"), press=collapse),
]
MANY_ARENAS = Scenario("64-arenas-200-threads", ("--threads", "200"), "glibc.malloc.arena_max=64")
ONE_ARENA = Scenario("1-arena-200-threads", ("--threads", "200"), "glibc.malloc.arena_max=1")
LOCKED = Scenario("locked", first="lock")
HUGETLB = [  # the last so that much is forgotten: then it cannot be told what
    Scenario("hugetlb", (), "glibc.malloc.hugetlb=2", machine=lambda: kernel.huge_page_pool(128)),
    Scenario("hugetlb-main", ("--threads", "0"), "glibc.malloc.hugetlb=2", machine=lambda: kernel.huge_page_pool(128)),
    Scenario(
        "hugetlb-more",
        ("--threads", "2", "--operations", "60000"),
        "glibc.malloc.hugetlb=2",
        machine=lambda: kernel.huge_page_pool(400),
    ),
]
OTHERS = [
    MANY_ARENAS,
    ONE_ARENA,
    LOCKED,
    Scenario("perturbed", tunables="glibc.malloc.perturb=165"),
    Scenario("top-pad", tunables="glibc.malloc.top_pad=4194304"),
    Scenario("all-mmapped", tunables="glibc.malloc.mmap_threshold=4096"),
    Scenario("punched", then="advise 4"),  # MADV_DONTNEED
    Scenario("given-away", then="advise 8"),  # MADV_FREE
    Scenario("protected", then="protect"),
    Scenario("protected-no-brk", ("--scenario", "no-brk", "--threads", "0"), then="protect"),
    Scenario("merged", then="advise 12", machine=merging, press=merge_same_pages),  # MADV_MERGEABLE
]


def chunks_of(dump: Dump, kind: fmt.ChunkClass) -> set[int]:
    """The addresses of all chunks of a class."""
    found: set[int] = set()
    for heap in range(len(dump.heaps)):
        chunks = dump.heap_chunks(heap)
        found.update(chunks.addresses[chunks.classes == kind].tolist())
    return found


class Look:
    """One dump of a parked program, and what the kernel said of it before and after."""

    def __init__(self, arenadump: harness.Arenadump, pid: int, path: Path, mode: str, **options: object) -> None:
        kernel.settle()
        self.before = kernel.Pages.of(pid)
        arenadump.check("dump", "--chunks", "--mode", mode, "-o", path, pid, **options)
        self.after = kernel.Pages.of(pid)
        self.dump = Dump(path)

    @property
    def strays(self) -> int:
        """How many pages that were swapped out before are not so in the dump, or after it."""
        before, after = (kernel.total(p.mappings, "Swap") for p in (self.before, self.after))
        return (before - min(after, int(self.dump.meta["swap"]))) // kernel.PAGE

    @property
    def warnings(self) -> list[str]:
        """All but notes."""
        return [self.dump.string(w["text"]) for w in self.dump.warnings if w["code"] != fmt.WarningCode.NOTE]

    @property
    def in_use(self) -> set[int]:
        return chunks_of(self.dump, fmt.ChunkClass.IN_USE)

    def spans(self) -> Iterator[tuple[int, int, NDArray[np.void]]]:
        """Each heap's whole pages, and the dump's records of them."""
        for heap, record in enumerate(self.dump.heaps):
            pages = self.dump.heap_pages(heap)
            start = int(record["start"]) // kernel.PAGE * kernel.PAGE
            yield start, start + len(pages) * kernel.PAGE, pages

    def check_pages(self) -> None:
        for start, end, pages in self.spans():
            said = pages["residency"] & ~np.uint8(kernel.HUGE_MAPPED)
            assert said.tolist() == self.before[start, end].tolist(), f"{start:#x}-{end:#x}"

    def check_huge(self) -> None:
        """Of mappings that are all malloc's, the records count as much in huge pages as smaps."""
        huge: dict[int, int] = {}
        covered: dict[int, int] = {}
        for start, end, pages in self.spans():
            for m in self.before.mappings:
                first, last = max(start, m.start), min(end, m.end)
                if first < last:
                    part = pages["residency"][(first - start) // kernel.PAGE : (last - start) // kernel.PAGE]
                    there = part & (kernel.HUGE_MAPPED | kernel.PRESENT) == kernel.HUGE_MAPPED | kernel.PRESENT
                    huge[m.start] = huge.get(m.start, 0) + int(there.sum()) * kernel.PAGE
                    covered[m.start] = covered.get(m.start, 0) + last - first
        for m in self.before.mappings:
            if covered.get(m.start) == m.end - m.start and m.counts["KernelPageSize"] == kernel.PAGE:
                assert huge[m.start] == m.counts["AnonHugePages"], m

    def check_sums(self) -> None:
        ledger = self.dump.totals["ledger"]
        rows = {row: int(ledger[row]) for row in fmt.LEDGER_ROWS}
        assert rows["unknown"] == 0
        assert sum(rows.values()) == int(self.dump.meta["rss"]) == kernel.total(self.before.mappings, "Rss")
        assert int(self.dump.meta["swap"]) == kernel.total(self.before.mappings, "Swap")
        swapped = sum(int((self.before[start, end] == kernel.SWAPPED).sum()) for start, end, _ in self.spans())
        # The last page of a heap need not be all malloc's.
        rest = swapped * kernel.PAGE - int(ledger["swapped_in_use"]) - int(ledger["swapped_free"])
        assert 0 <= rest < kernel.PAGE * max(1, len(self.dump.heaps))
        listed = {int(m["start"]): (int(m["rss"]), int(m["swap"]), int(m["hugetlb"])) for m in self.dump.mappings}
        assert listed == {
            m.start: (m.counts["Rss"], m.counts["Swap"], m.counts["Private_Hugetlb"] + m.counts["Shared_Hugetlb"])
            for m in self.before.mappings
        }

    def check_heaps_harmless(self) -> None:
        for start, end, _ in self.spans():
            changed = np.flatnonzero(self.after[start, end] != self.before[start, end])
            assert changed.tolist() == [], f"pages of {start:#x}-{end:#x}"

    def check_harmless(self) -> None:
        self.check_heaps_harmless()
        for name in ("Rss", "Swap", "AnonHugePages", "Private_Hugetlb"):
            before, after = ({m.start: m.counts[name] for m in p.mappings} for p in (self.before, self.after))
            assert after == before, name
        for start, pages in self.before.pages.items():
            assert self.after.pages[start].tolist() == pages.tolist(), f"mapping {start:#x}"


def take(arenadump: harness.Arenadump, pid: int, path: Path, mode: str) -> Look:
    """A look. A page that another processor has at hand the kernel does not send to swap again: it may take several."""
    for _attempt in range(5):
        look = Look(arenadump, pid, path, mode)
        if not 0 < look.strays <= 4:
            break
    return look


@dataclass
class Pressed:
    """A program under pressure, parked, looked at in each mode."""

    looks: dict[str, Look]
    baseline: set[int]
    held: set[int]


@contextlib.contextmanager
def pressed(
    scenario: Scenario, libc: debian.Libc, program: Path, arenadump: harness.Arenadump, directory: Path
) -> Iterator[tuple[harness.Churn, Pressed]]:
    command = harness.under(libc, program, *scenario.options)
    with allowed(scenario.machine()), harness.Churn(command, tunables=scenario.tunables) as churn:
        if scenario.first:
            churn.ask(scenario.first)
        baseline = Look(arenadump, churn.pid, directory / "baseline", "freeze").in_use
        churn.ask("go")
        if scenario.then:
            churn.ask(scenario.then)
        try:
            scenario.press(churn.pid)
        except kernel.NotAllowedError as reason:
            pytest.xfail(f"this machine does not allow it: {reason}")
        # The first look brings back what is not malloc's: the page of the command line, to read it; and, as any signal
        # would, the pages in which threads that stood still and run on keep their restartable sequences.
        if kernel.total(kernel.smaps(churn.pid), "Swap") > 0:
            first = take(arenadump, churn.pid, directory / "first", "freeze")
            first.check_pages()
            first.check_heaps_harmless()
        looks = {mode: take(arenadump, churn.pid, directory / mode, mode) for mode in MODES}
        held = set(churn.held())
        yield churn, Pressed(looks, baseline, held)


def check(p: Pressed) -> None:
    for mode, look in p.looks.items():
        assert look.warnings == [], mode
        assert look.dump.meta["flags"] & fmt.MetaFlag.EXACT, mode
        assert look.dump.meta["torn_chunks"] == 0, mode
        assert p.held - look.in_use == set(), f"{mode}: held, but not found in use"
        assert look.in_use - p.held - p.baseline == set(), f"{mode}: found in use, but neither held nor libc's own"
        look.check_pages()
        look.check_huge()
        look.check_sums()
        look.check_harmless()


@pytest.mark.parametrize("scenario", [*OTHERS, *HUGE], ids=str)
def test_page_map(
    scenario: Scenario, libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    with pressed(scenario, libc, churn_program, arenadump, tmp_path) as (_, p):
        check(p)
        look = p.looks["freeze"]
        ledger = look.dump.totals["ledger"]
        if scenario.name in ("huge-always", "huge-collapsed"):
            assert kernel.total(look.before.mappings, "AnonHugePages") > 0
        if scenario is MANY_ARENAS:
            assert len(look.dump.arenas) == 64
            assert len(look.dump.threads) > 100
        if scenario is ONE_ARENA:
            assert len(look.dump.arenas) == 1
        if scenario is LOCKED:
            assert int(ledger["untouched"]) + int(ledger["returned"]) == 0
        if scenario.name == "punched":
            assert int(ledger["untouched"]) > 1 << 20
        if scenario.name == "merged":
            assert kernel.total(look.before.mappings, "KSM") > 0


@pytest.mark.usefixtures("swap")
@pytest.mark.parametrize("scenario", SWAPPED, ids=str)
def test_swap(
    scenario: Scenario, libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    with pressed(scenario, libc, churn_program, arenadump, tmp_path) as (_, p):
        check(p)
        look = p.looks["freeze"]
        assert kernel.total(look.before.mappings, "Swap") > 1 << 20
        assert look.dump.totals["ledger"]["swapped_in_use"] > 1 << 20


def drop_sys_nice() -> None:
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0)


@pytest.mark.usefixtures("swap")
def test_without_the_right_to_send_pages_back(
    libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    """The numbers are exact all the same, and how much came back is said, to the byte."""
    scenario = Scenario("swapped", press=page_out)
    with pressed(scenario, libc, churn_program, arenadump, tmp_path) as (churn, p):
        look = Look(arenadump, churn.pid, tmp_path / "dump", "freeze", preexec_fn=drop_sys_nice)
        assert look.in_use == p.looks["freeze"].in_use
        came_back = kernel.total(look.before.mappings, "Swap") - kernel.total(look.after.mappings, "Swap")
        assert came_back > 0
        notes = [look.dump.string(w["text"]) for w in look.dump.warnings]
        assert len([n for n in notes if "swapped out" in n]) == 1, notes


@pytest.mark.parametrize("scenario", HUGETLB, ids=str)
def test_hugetlb(
    scenario: Scenario, libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    """What malloc has on hugetlb pages stands beside the ledger, for the kernel does not count it in Rss.

    glibc 2.35 to 2.42 cannot unmap an mmapped block that realloc made smaller (munmap refuses a part of a huge page),
    and forgets it. Which blocks those are follows from mp_'s counts if only one choice of them does; else how many.
    """
    if libc.release < (2, 35):
        scenario = Scenario("ignored", scenario.options, scenario.tunables)
    with pressed(scenario, libc, churn_program, arenadump, tmp_path) as (_, p):
        if libc.release >= (2, 35):  # a clone would need huge pages of its own, and could get the target killed
            assert p.looks["snapshot"].dump.meta["mode"] == fmt.Mode.FREEZE
        for look in p.looks.values():
            assert p.held - look.in_use == set()
            forgotten = look.in_use - p.held - p.baseline
            huge = [m for m in look.before.mappings if m.counts["KernelPageSize"] == kernel.HUGE]
            if look.dump.meta["flags"] & fmt.MetaFlag.EXACT:
                assert (forgotten, look.warnings) == (set(), [])
            else:
                assert (2, 35) <= libc.release < (2, 43)
                (warning,) = look.warnings
                assert f"as in use {len(forgotten)} (" in warning
                assert "have been freed" in warning
                assert all(any(m.start <= chunk < m.end for m in huge) for chunk in forgotten)
            assert look.dump.meta["torn_chunks"] == 0
            look.check_pages()
            look.check_sums()
            look.check_harmless()
            counted = sum(m.counts["Private_Hugetlb"] for m in huge)
            ledger = look.dump.totals["ledger"]
            if libc.release >= (2, 43):
                assert int(ledger["hugetlb"]) == counted > 8 * kernel.HUGE
            elif libc.release >= (2, 35):
                assert 8 * kernel.HUGE < int(ledger["hugetlb"]) <= counted


def test_parent_and_child(libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Every page shared copy-on-write. In the child other threads' tcaches have no owner: they count as in use."""
    with pressed(Scenario("forked"), libc, churn_program, arenadump, tmp_path) as (churn, p):
        check(p)
        ((_, word),) = churn.ask("fork")
        child = int(word)
        try:
            for mode in MODES:
                parent = Look(arenadump, churn.pid, tmp_path / "parent", mode)
                check(Pressed({mode: parent}, p.baseline, p.held))
                look = Look(arenadump, child, tmp_path / "child", mode)
                orphans = chunks_of(parent.dump, fmt.ChunkClass.TCACHE) | tcaches(parent.dump)
                assert p.held - look.in_use == set()
                assert look.in_use - p.held - p.baseline - orphans == set()
                look.check_pages()
                look.check_sums()
                look.check_harmless()
        finally:
            os.kill(child, 9)


def test_clone_costs_no_memory(
    libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    """To look at the clone gives it no copies of the pages that it shares with the target."""
    try:
        group = kernel.Cgroup(f"arenascope-test-{os.getpid()}")
    except kernel.NotAllowedError as reason:
        pytest.xfail(f"this machine does not allow it: {reason}")
    with group, harness.Churn(harness.under(libc, churn_program, *LARGE)) as churn:
        group.squeeze(churn.pid, 1 << 40)
        churn.ask("go")
        try:
            before = group.peak()
        except kernel.NotAllowedError as reason:
            pytest.skip(str(reason))
        arenadump.check("dump", "--mode", "snapshot", "-o", tmp_path / "dump", churn.pid)
        dump = Dump(tmp_path / "dump")
        assert dump.meta["mode"] == fmt.Mode.SNAPSHOT
        assert dump.meta["rss"] > 32 << 20
        assert group.peak() - before < int(dump.meta["rss"]) // 4


def tcaches(dump: Dump) -> set[int]:
    """The chunks in which threads keep their tcache_perthread_struct."""
    return {int(thread["tcache"]) - harness.HEADER for thread in dump.threads}


@pytest.mark.usefixtures("swap")
def test_cgroup_that_is_too_small(
    libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    """What is read from swap counts against the target's limit: at worst the clone is killed, never the target."""
    try:
        group = kernel.Cgroup(f"arenascope-test-{os.getpid()}")
    except kernel.NotAllowedError as reason:
        pytest.xfail(f"this machine does not allow it: {reason}")
    with group, harness.Churn(harness.under(libc, churn_program, *LARGE)) as churn:
        group.squeeze(churn.pid, 96 << 20)
        baseline = Look(arenadump, churn.pid, tmp_path / "baseline", "auto").in_use
        churn.ask("go")
        for size in (64, 48, 32):
            group.squeeze(churn.pid, size << 20)
        looks = 0
        for attempt in range(8):
            done = arenadump.run("dump", "--chunks", "-o", tmp_path / f"{attempt}", churn.pid)
            held = set(churn.held())  # it lives
            if done.returncode == 7:
                assert "short of memory" in done.stderr
                continue
            assert done.returncode == 0, done.stderr
            dump = Dump(tmp_path / f"{attempt}")
            assert dump.meta["mode"] == fmt.Mode.SNAPSHOT
            assert dump.meta["torn_chunks"] == 0
            assert int(dump.meta["swap"]) > 4 << 20
            # The kernel may take pages between its own counts, smaps and pagemap: then no answer passes for exact.
            rows = sum(int(dump.totals["ledger"][row]) for row in fmt.LEDGER_ROWS)
            assert rows == dump.meta["rss"] or not dump.meta["flags"] & fmt.MetaFlag.EXACT
            in_use = chunks_of(dump, fmt.ChunkClass.IN_USE)
            assert held - in_use == set()
            assert in_use - held - baseline == set()
            looks += 1
            if looks == 3:
                break
        assert looks > 0
