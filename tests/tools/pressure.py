# SPDX-License-Identifier: MIT
"""A program under pressure, what the kernel says of each of its pages, and whether a dump says the same.

What a machine does not allow (swap, huge pages, cgroups: see docs/ledger.md, "Under pressure") is an expected failure
that gives the kernel's own refusal.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

from . import debian, harness, kernel

# 2.31, 2.36, 2.43: three generations of malloc's structures. A virtual machine of tests/vm has one libc, of any suite.
SUITES = tuple(debian.SUITES) if "TEST_PROGRAMS" in os.environ else ("bullseye", "bookworm", "forky")
MODES = ("freeze", "clone")
LARGE = ("--slots", "16384", "--operations", "60000")


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


def chunks_of(dump: Dump, kind: fmt.ChunkClass) -> set[int]:
    """The addresses of all chunks of a class."""
    found: set[int] = set()
    for heap in range(len(dump.heaps)):
        chunks = dump.heap_chunks(heap)
        found.update(chunks.addresses[chunks.classes == kind].tolist())
    return found


class Snapshot:
    """One dump of a parked program, and what the kernel said of it before and after."""

    def __init__(self, arenadump: harness.Arenadump, pid: int, path: Path, mode: str, **options: object) -> None:
        kernel.settle()
        self.before = kernel.Pages.of(pid)
        # How fast it is, and with that for how long the target stands still, is another test's business.
        arenadump.check("dump", "--chunks", "--mode", mode, "--max-pause=600s", "-o", path, pid, **options)
        self.after = kernel.Pages.of(pid)
        self.dump = Dump(path)

    @property
    def strays(self) -> int:
        """How many pages that were swapped out before are not so in the dump, by its sum or its pages, or after it."""
        before, after = (kernel.total(p.mappings, "Swap") for p in (self.before, self.after))
        there = sum(
            int(((self.before[start, end] == kernel.SWAPPED) & (pages["residency"] & kernel.PRESENT != 0)).sum())
            for start, end, pages in self.spans()
        )
        return max((before - min(after, int(self.dump.meta["swap"]))) // kernel.PAGE, there)

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
            kernels = self.before[start, end]
            wrong = [
                (hex(start + i * kernel.PAGE), int(said[i]), int(kernels[i])) for i in np.flatnonzero(said != kernels)
            ]
            assert wrong == [], (
                f"{start:#x}-{end:#x}: {len(wrong)} pages, what is said of each and what the kernel says: {wrong[:32]}"
            )

    def check_huge(self) -> None:
        """The records count as much in huge pages as smaps in mappings that are all malloc's, or nothing at all.

        Before Linux 6.7 the page map does not tell huge pages from others.
        """
        if not kernel.scans():
            assert all(not (pages["residency"] & np.uint8(kernel.HUGE_MAPPED)).any() for _, _, pages in self.spans())
            return
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
        self.check_mappings()
        assert sum(rows.values()) == int(self.dump.meta["rss"]) == kernel.total(self.before.mappings, "Rss"), rows
        assert int(self.dump.meta["swap"]) == kernel.total(self.before.mappings, "Swap")
        swapped = sum(int((self.before[start, end] == kernel.SWAPPED).sum()) for start, end, _ in self.spans())
        # The last page of a heap need not be all malloc's.
        rest = swapped * kernel.PAGE - int(ledger["swapped_in_use"]) - int(ledger["swapped_free"])
        assert 0 <= rest < kernel.PAGE * max(1, len(self.dump.heaps))

    def check_mappings(self) -> None:
        """The dump lists the mappings that smaps lists, and counts in each what smaps counts: Rss, swap, hugetlb."""
        listed = {int(m["start"]): (int(m["rss"]), int(m["swap"]), int(m["hugetlb"])) for m in self.dump.mappings}
        kernels = {
            m.start: (m.counts["Rss"], m.counts["Swap"], m.counts["Private_Hugetlb"] + m.counts["Shared_Hugetlb"])
            for m in self.before.mappings
        }
        names = {m.start: f"{m.start:#x} {m.permissions} {m.path}" for m in self.before.mappings}
        wrong = [
            f"{names.get(start, hex(start))}: {listed.get(start)}, and the kernel says {kernels.get(start)}"
            for start in sorted({*listed, *kernels})
            if listed.get(start) != kernels.get(start)
        ]
        assert wrong == [], "Rss, swap and hugetlb of these mappings:\n" + "\n".join(wrong)

    def check_heaps_harmless(self) -> None:
        for start, end, _ in self.spans():
            changed = np.flatnonzero(self.after[start, end] != self.before[start, end])
            assert changed.tolist() == [], f"pages of {start:#x}-{end:#x}"

    def check_harmless(self) -> None:
        self.check_heaps_harmless()
        for name in ("Rss", "Swap", "AnonHugePages", "Private_Hugetlb"):
            changed = self.changed(name)
            assert changed == [], "\n".join(changed)
        for start, pages in self.before.pages.items():
            assert self.after.pages[start].tolist() == pages.tolist(), f"mapping {start:#x}"

    def changed(self, name: str) -> list[str]:
        """The mappings of which smaps counts something else after the snapshot than before."""
        before, after = ({m.start: m for m in p.mappings} for p in (self.before, self.after))
        assert before.keys() == after.keys()
        return [
            f"{start:#x} {m.permissions} {m.path}: {name} was {before[start].counts[name]}, and is {m.counts[name]}"
            for start, m in after.items()
            if m.counts[name] != before[start].counts[name]
        ]

    @property
    def reclaimed(self) -> bool:
        """Did the kernel take pages meanwhile, as it does at any time when it has too few free ones?

        It takes those of files, and those that the program has given away (MADV_FREE), which are not swapped out.
        """
        after = {m.start: m.counts["Rss"] for m in self.after.mappings}
        files = any(after.get(m.start, 0) < m.counts["Rss"] for m in self.before.mappings if not m.anonymous)
        return files or kernel.total(self.after.mappings, "LazyFree") < kernel.total(self.before.mappings, "LazyFree")


def take(arenadump: harness.Arenadump, pid: int, path: Path, mode: str) -> Snapshot:
    """A snapshot; several, if the kernel has moved pages of its own accord.

    A page that another processor has at hand it does not send to swap again.
    """
    for _attempt in range(5):
        snapshot = Snapshot(arenadump, pid, path, mode)
        if not 0 < snapshot.strays <= 4 and not snapshot.reclaimed:
            break
    return snapshot


@dataclass
class Pressed:
    """A program under pressure, parked, inspected in each mode."""

    snapshots: dict[str, Snapshot]
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
        baseline = Snapshot(arenadump, churn.pid, directory / "baseline", "freeze").in_use
        churn.ask("go")
        if scenario.then:
            churn.ask(scenario.then)
        try:
            scenario.press(churn.pid)
        except kernel.NotAllowedError as reason:
            pytest.xfail(f"this machine does not allow it: {reason}")
        # The first snapshot brings back what is not malloc's: the page of the command line, to read it; and, as any
        # signal
        # would, the pages in which threads that stood still and run on keep their restartable sequences.
        if kernel.total(kernel.smaps(churn.pid), "Swap") > 0:
            first = take(arenadump, churn.pid, directory / "first", "freeze")
            first.check_pages()
            first.check_heaps_harmless()
        snapshots = {mode: take(arenadump, churn.pid, directory / mode, mode) for mode in MODES}
        held = set(churn.held())
        yield churn, Pressed(snapshots, baseline, held)


def check(p: Pressed) -> None:
    for mode, snapshot in p.snapshots.items():
        assert snapshot.warnings == [], f"{mode}: {snapshot.warnings}"
        assert snapshot.dump.meta["flags"] & fmt.MetaFlag.EXACT, mode
        assert snapshot.dump.meta["torn_chunks"] == 0, mode
        assert p.held - snapshot.in_use == set(), f"{mode}: held, but not found in use"
        assert snapshot.in_use - p.held - p.baseline == set(), f"{mode}: found in use, but neither held nor libc's own"
        snapshot.check_pages()
        snapshot.check_huge()
        snapshot.check_sums()
        snapshot.check_harmless()
