# SPDX-License-Identifier: MIT
"""The page map when memory is locked, huge, shared or given back: what is said of every page against the kernel.

Each scenario is inspected by freeze and by snapshot. Before and after, smaps and pagemap are read here, page by page:
the dump has to say the same, and the snapshot must have changed nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import fetched
from tools import debian, harness, kernel, tiers
from tools.pressure import (
    LARGE,
    MODES,
    SUITES,
    Pressed,
    Scenario,
    allowed,
    check,
    chunks_of,
    own_pages,
    pressed,
    take,
)

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

pytestmark = [pytest.mark.usefixtures("pages_stay"), pytest.mark.alone]


@pytest.fixture(scope="module", params=tiers.by_tier(SUITES))
def libc(request: pytest.FixtureRequest) -> debian.Libc:
    return fetched(request.param)


def collapse(pid: int) -> None:
    """As khugepaged would, but now."""
    if not kernel.collapses():
        raise kernel.NotAllowedError("the kernel has no MADV_COLLAPSE (it does since Linux 6.1)")
    for m in own_pages(pid):
        first = (m.start + kernel.HUGE - 1) // kernel.HUGE * kernel.HUGE
        spans = [(at, at + kernel.HUGE) for at in range(first, m.end - kernel.HUGE + 1, 2 * kernel.HUGE)]
        kernel.advise(pid, spans, kernel.MADV_COLLAPSE)


def merge_same_pages(pid: int) -> None:
    """Lets the kernel merge what is alike (KSM) until it finds no more."""
    if "KSM" not in kernel.smaps(pid)[0].counts:
        raise kernel.NotAllowedError("smaps does not tell what is merged (it does since Linux 6.8)")
    merged, deadline = -1, time.monotonic() + 120
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
def no_huge_pages() -> Iterator[None]:
    """None in the programs that are started meanwhile. What Linux 6.1 says of protected ones is for another test."""
    kernel.libc.prctl(kernel.PR_SET_THP_DISABLE, 1, 0, 0, 0)
    try:
        yield
    finally:
        kernel.libc.prctl(kernel.PR_SET_THP_DISABLE, 0, 0, 0, 0)


@contextlib.contextmanager
def huge_pages(when: str, *, needed: bool = False) -> Iterator[None]:
    """Transparent huge pages as set, and khugepaged asleep: it would change what we compare. `needed`: some must be."""
    size = int((kernel.THP.parent / "hpage_pmd_size").read_text()) if kernel.THP.exists() else 0
    if needed and size > kernel.HUGE:
        raise kernel.NotAllowedError(f"a huge page has {size >> 20} MiB, and the program's heaps have no room for one")
    with kernel.khugepaged_asleep(), kernel.setting(kernel.THP, when):
        yield


HUGE = [
    Scenario("huge-always", LARGE, machine=lambda: huge_pages("always", needed=True)),
    Scenario("huge-never", tunables="glibc.malloc.hugetlb=1", machine=lambda: huge_pages("never")),
    Scenario("huge-advised", LARGE, "glibc.malloc.hugetlb=1", machine=lambda: huge_pages("madvise")),
    Scenario("huge-collapsed", LARGE, machine=lambda: huge_pages("madvise", needed=True), press=collapse),
]
MANY_ARENAS = Scenario("64-arenas-200-threads", ("--threads", "200"), "glibc.malloc.arena_max=64")
ONE_ARENA = Scenario("1-arena-200-threads", ("--threads", "200"), "glibc.malloc.arena_max=1")
LOCKED = Scenario("locked", first="lock")


OTHERS = [
    MANY_ARENAS,
    ONE_ARENA,
    LOCKED,
    Scenario("perturbed", tunables="glibc.malloc.perturb=165"),
    Scenario("top-pad", tunables="glibc.malloc.top_pad=4194304"),
    Scenario("all-mmapped", tunables="glibc.malloc.mmap_threshold=4096"),
    Scenario("punched", then="advise 4"),  # MADV_DONTNEED
    Scenario("given-away", then="advise 8"),  # MADV_FREE
    Scenario("protected", machine=no_huge_pages, then="protect"),
    Scenario("protected-no-brk", ("--scenario", "no-brk", "--threads", "0"), machine=no_huge_pages, then="protect"),
    Scenario("merged", then="advise 12", machine=merging, press=merge_same_pages),  # MADV_MERGEABLE
]


def check_forecast(churn: harness.Churn, p: Pressed) -> None:
    """What malloc_trim(0) gives back is what was forecast; a trim of what is locked gives back next to nothing."""
    before = harness.smaps(churn.pid, "Anonymous")
    churn.ask("trim")
    trimmed = before - harness.smaps(churn.pid, "Anonymous")
    for mode, snapshot in p.snapshots.items():
        ledger = snapshot.dump.totals["ledger"]
        assert abs(int(ledger["malloc_trim"]) - trimmed) <= max(trimmed // 100, 16 * kernel.PAGE), mode
        assert int(ledger["withheld"]) == 0, mode


@pytest.mark.nearest
@pytest.mark.parametrize("scenario", [*OTHERS, *HUGE], ids=str)
def test_page_map(
    scenario: Scenario, libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    with pressed(scenario, libc, churn_program, arenadump, tmp_path) as (churn, p):
        check(p)
        snapshot = p.snapshots["freeze"]
        ledger = snapshot.dump.totals["ledger"]
        if scenario.name in ("huge-always", "huge-collapsed"):
            assert kernel.total(snapshot.before.mappings, "AnonHugePages") > 0
        if scenario is MANY_ARENAS:
            assert len(snapshot.dump.arenas) == 64
            assert len(snapshot.dump.threads) > 100
        if scenario is ONE_ARENA:
            assert len(snapshot.dump.arenas) == 1
        if scenario is LOCKED:
            assert int(ledger["untouched"]) + int(ledger["returned"]) == 0
            check_forecast(churn, p)
        if scenario.name == "punched":
            assert int(ledger["untouched"]) > 1 << 20
        if scenario.name == "merged":
            assert kernel.total(snapshot.before.mappings, "KSM") > 0


PROTECTED = """
import ctypes, signal
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
huge, size = 2 << 20, 8 << 20
libc.mallopt(-3, 4 * size)  # M_MMAP_THRESHOLD: the block is not to have a mapping of its own
block = libc.malloc(ctypes.c_size_t(size))
start = ctypes.c_void_p((block + huge - 1) // huge * huge)
libc.madvise(start, ctypes.c_size_t(2 * huge), 14)  # MADV_HUGEPAGE
ctypes.memset(block, 1, size)
libc.mprotect(start, ctypes.c_size_t(2 * huge), 0)
print(start.value, flush=True)
signal.pause()
"""


def test_page_map_of_protected_huge_pages(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Linux 6.1 leaves them out of Rss: the pages are told all the same, and a warning says why the sums differ."""
    with allowed(huge_pages("madvise")):
        target = subprocess.Popen([sys.executable, "-c", PROTECTED], stdout=subprocess.PIPE)
        try:
            assert target.stdout
            start = int(target.stdout.readline())
            snapshot = take(arenadump, target.pid, tmp_path / "dump", "freeze")
        finally:
            target.kill()
            target.communicate()
    (protected,) = [m for m in snapshot.before.mappings if m.start <= start < m.end]
    assert protected.permissions == "---p"
    resident = int((snapshot.before.pages[protected.start] == kernel.PRESENT).sum()) * kernel.PAGE
    assert resident == 2 * kernel.HUGE
    snapshot.check_pages()
    snapshot.check_mappings()
    snapshot.check_heaps_harmless()
    if protected.counts["Rss"] == resident:
        assert snapshot.warnings == []
        snapshot.check_sums()
    else:
        assert any("memory that may not be accessed" in text for text in snapshot.warnings), snapshot.warnings
        rows = sum(int(snapshot.dump.totals["ledger"][row]) for row in fmt.LEDGER_ROWS)
        assert rows - int(snapshot.dump.meta["rss"]) == resident - protected.counts["Rss"]


def test_parent_and_child(libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Every page shared copy-on-write. In the child other threads' tcaches have no owner: they count as in use."""
    with pressed(Scenario("forked"), libc, churn_program, arenadump, tmp_path) as (churn, p):
        check(p)
        ((_, word),) = churn.ask("fork")
        child = int(word)
        try:
            for mode in MODES:
                parent = take(arenadump, churn.pid, tmp_path / "parent", mode)
                check(Pressed({mode: parent}, p.baseline, p.held))
                snapshot = take(arenadump, child, tmp_path / "child", mode)
                orphans = chunks_of(parent.dump, fmt.ChunkClass.TCACHE) | tcaches(parent.dump)
                assert p.held - snapshot.in_use == set()
                assert snapshot.in_use - p.held - p.baseline - orphans == set()
                snapshot.check_pages()
                snapshot.check_sums()
                snapshot.check_harmless()
        finally:
            os.kill(child, 9)


def test_clone_costs_no_memory(
    libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    """To inspect the clone gives it no copies of the pages that it shares with the target."""
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
        arenadump.check("dump", "--mode", "clone", "-o", tmp_path / "dump", churn.pid)
        dump = Dump(tmp_path / "dump")
        assert dump.meta["mode"] == fmt.Mode.CLONE
        assert dump.meta["rss"] > 32 << 20
        assert group.peak() - before < int(dump.meta["rss"]) // 4


FORKED = """
import os, signal
blocks = [bytearray(200) for _ in range(300_000)]
if os.fork() == 0:
    signal.pause()
print("ready", flush=True)
signal.pause()
"""


def test_worker_keeps_sharing(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """To inspect a process gives it no copies of the pages that it shares with those it has forked."""
    try:
        group = kernel.Cgroup(f"arenascope-test-{os.getpid()}")
    except kernel.NotAllowedError as reason:
        pytest.xfail(f"this machine does not allow it: {reason}")
    with group:
        command = ["sh", "-c", f'echo $$ >{group.path}/cgroup.procs; exec "$0" -c "$1"', sys.executable, FORKED]
        environment = {**os.environ, "PYTHONMALLOC": "malloc"}
        parent = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, start_new_session=True)
        try:
            assert parent.stdout
            assert parent.stdout.readline() == b"ready\n"
            try:
                before = group.peak()
            except kernel.NotAllowedError as reason:
                pytest.skip(str(reason))
            # How long the target stands still depends on the machine, and is another test's business.
            arenadump.check("dump", "--mode", "freeze", "--max-pause=600s", "-o", tmp_path / "dump", parent.pid)
            dump = Dump(tmp_path / "dump")
            assert dump.meta["mode"] == fmt.Mode.FREEZE
            assert int(dump.totals["ledger"]["in_use"]) > 50 << 20
            assert group.peak() - before < 10 << 20
        finally:
            os.killpg(parent.pid, signal.SIGKILL)
            parent.communicate()


def tcaches(dump: Dump) -> set[int]:
    """The chunks in which threads keep their tcache_perthread_struct."""
    return {int(thread["tcache"]) - harness.HEADER for thread in dump.threads}
