# SPDX-License-Identifier: MIT
"""What the kernel itself says of a process's pages, and ways to put them under pressure, each undone afterwards."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import re
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from . import machine_lock

PAGE = os.sysconf("SC_PAGESIZE")
HUGE = 2 << 20
# /proc/PID/pagemap and /proc/kpageflags (Documentation/admin-guide/mm/pagemap.rst)
PM_PRESENT, PM_SWAPPED, PM_EXCLUSIVE, PM_FRAME = 1 << 63, 1 << 62, 1 << 56, (1 << 55) - 1
KPF_ZERO_PAGE = 1 << 24
# As dump pages have it (inspector/target/target.h)
PRESENT, SWAPPED, ZERO, HUGE_MAPPED = 1, 2, 4, 8
MADV_PAGEOUT, MADV_COLLAPSE = 21, 25
SYS_PIDFD_OPEN, SYS_PROCESS_MADVISE = 434, 440
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
KHUGEPAGED = THP.parent / "khugepaged"
PR_SET_THP_DISABLE = 41
HUGE_POOL = Path("/proc/sys/vm/nr_hugepages")
KSM = Path("/sys/kernel/mm/ksm")
CGROUPS = Path("/sys/fs/cgroup")

libc = ctypes.CDLL(None, use_errno=True)
Entries = NDArray[np.uint64]


class NotAllowedError(Exception):
    """This machine does not let us do that; the text says what was tried."""


@dataclass
class Mapping:
    """One entry of smaps; counts in bytes."""

    start: int
    end: int
    permissions: str
    path: str
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def anonymous(self) -> bool:
        return self.path.startswith(("[heap]", "[stack]", "[anon:", "/anon_hugepage")) or not self.path

    @property
    def writable(self) -> bool:
        return self.permissions.startswith("rw") and self.permissions.endswith("p")


def smaps(pid: int) -> list[Mapping]:
    mappings: list[Mapping] = []
    for line in Path(f"/proc/{pid}/smaps").read_text(errors="replace").splitlines():
        if head := re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)", line):
            start, end, permissions, path = head.groups()
            mappings.append(Mapping(int(start, 16), int(end, 16), permissions, path))
        elif count := re.match(r"(\w+): +(\d+) kB$", line):
            mappings[-1].counts[count[1]] = int(count[2]) * 1024
    return mappings


def total(mappings: list[Mapping], name: str) -> int:
    return sum(m.counts[name] for m in mappings)


def entries(pid: int, start: int, end: int) -> Entries:
    """The pagemap entries of [start, end)."""
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as file:
        data = os.pread(file.fileno(), (end - start) // PAGE * 8, start // PAGE * 8)
    return np.frombuffer(data, np.uint64)


def residency(pid: int, start: int, end: int) -> NDArray[np.uint8]:
    """PRESENT, SWAPPED, ZERO or 0 for each page, by pagemap and the flags of page frames alone."""
    found = entries(pid, start, end)
    present = (found & np.uint64(PM_PRESENT)) != 0
    swapped = ~present & ((found & np.uint64(PM_SWAPPED)) != 0)
    result = np.where(present, PRESENT, np.where(swapped, SWAPPED, 0)).astype(np.uint8)
    # The zero page is the one page that may be mapped and yet not counted; nobody has it to himself.
    doubtful = present & ((found & np.uint64(PM_EXCLUSIVE)) == 0)
    frames, index = np.unique(found[doubtful] & np.uint64(PM_FRAME), return_inverse=True)
    with Path("/proc/kpageflags").open("rb", buffering=0) as file:
        flags = [int.from_bytes(os.pread(file.fileno(), 8, int(frame) * 8), "little") for frame in frames]
    zero = np.array([flag & KPF_ZERO_PAGE != 0 for flag in flags], bool)
    if len(zero):
        result[doubtful] = np.where(zero[index], ZERO, PRESENT)
    return result


@dataclass
class Pages:
    """What the kernel says of a process: smaps, and every page of its private anonymous memory."""

    mappings: list[Mapping]
    pages: dict[int, NDArray[np.uint8]]  # by the start of the mapping

    @classmethod
    def of(cls, pid: int) -> Pages:
        mappings = smaps(pid)
        return cls(mappings, {m.start: residency(pid, m.start, m.end) for m in mappings if m.anonymous})

    def __getitem__(self, span: tuple[int, int]) -> NDArray[np.uint8]:
        """Returns the residency of [start, end), page by page."""
        parts = [np.zeros(0, np.uint8)]
        for m in self.mappings:
            start, end = max(span[0], m.start), min(span[1], m.end)
            if start < end and m.anonymous:
                parts.append(self.pages[m.start][(start - m.start) // PAGE : (end - m.start) // PAGE])
        return np.concatenate(parts)


def advise(pid: int, ranges: list[tuple[int, int]], advice: int) -> None:
    """process_madvise: has the kernel do something to another process's memory. Raises NotAllowedError."""
    pidfd = libc.syscall(SYS_PIDFD_OPEN, pid, 0)
    try:
        for start, end in ranges:
            vector = (ctypes.c_size_t * 2)(start, end - start)
            length = ctypes.c_ssize_t(libc.syscall(SYS_PROCESS_MADVISE, pidfd, vector, 1, advice, 0)).value
            if length < 0 and ctypes.get_errno() != 22:
                raise NotAllowedError(f"process_madvise({advice}): {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(pidfd)


def scans() -> bool:
    """Is there PAGEMAP_SCAN? An ioctl that is not known fails with ENOTTY, a known one does so otherwise."""
    with Path("/proc/self/pagemap").open("rb", buffering=0) as file:
        libc.ioctl(file.fileno(), ctypes.c_ulong(0xC0606610), ctypes.c_void_p(0))
        return ctypes.get_errno() != errno.ENOTTY


def collapses() -> bool:
    """Is there MADV_COLLAPSE? An advice that is not known fails, of no memory too; a known one does not."""
    with mmap.mmap(-1, PAGE) as scratch:
        address = ctypes.addressof(view := ctypes.c_char.from_buffer(scratch))
        known: bool = libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(0), MADV_COLLAPSE) == 0
        del view
    return known


def settle() -> None:
    """Has every processor put the pages at hand where they belong: the kernel moves none of them to swap before.

    To collapse memory of our own begins with that (lru_add_drain_all); nothing else comes of it.
    """
    with mmap.mmap(-1, 2 * HUGE) as scratch:
        scratch[0] = 1
        address = ctypes.addressof(view := ctypes.c_char.from_buffer(scratch))
        libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(2 * HUGE), MADV_COLLAPSE)
        del view


@contextlib.contextmanager
def setting(path: Path, value: str) -> Iterator[None]:
    """A kernel setting of the whole machine, for a while. Raises NotAllowedError."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(machine_lock.setting(path, value))
        except OSError as error:
            raise NotAllowedError(f"{path} cannot be set: {error.strerror}") from error
        yield


@contextlib.contextmanager
def khugepaged_asleep() -> Iterator[None]:
    """Has the kernel make no huge page of memory that is there already. Raises NotAllowedError."""
    # To set the time wakes it once; from then on it sleeps for so long.
    with setting(KHUGEPAGED / "pages_to_scan", "1"), setting(KHUGEPAGED / "scan_sleep_millisecs", "3600000"):
        yield


@contextlib.contextmanager
def pages_stay() -> Iterator[None]:
    """What is absent stays absent, unless its program touches it: for tests that compare two snapshots of one process.

    Where any program gets transparent huge pages (`always`, Debian's default), khugepaged makes one of any 2 MiB of
    which a single page is there, and all of them are resident then: also what a trim has just given back. It is put to
    sleep; who may not do that does without huge pages in whatever is started from here on.
    """
    with contextlib.ExitStack() as stack:
        if THP.exists() and "[always]" in THP.read_text():
            try:
                stack.enter_context(khugepaged_asleep())
            except NotAllowedError:
                libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
                stack.callback(libc.prctl, PR_SET_THP_DISABLE, 0, 0, 0, 0)
        yield


@contextlib.contextmanager
def files_in_memory(paths: Iterable[str]) -> Iterator[None]:
    """All of these files is in memory, and the kernel drops no page of theirs. Raises NotAllowedError."""
    locked = []  # as long as they are mapped
    for path in paths:
        with Path(path).open("rb") as file:
            locked.append(np.frombuffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), np.uint8))
        if libc.mlock(ctypes.c_void_p(locked[-1].ctypes.data), ctypes.c_size_t(locked[-1].size)) != 0:
            raise NotAllowedError(f"{path} cannot be locked in memory: {os.strerror(ctypes.get_errno())}")
    yield
    locked.clear()


@contextlib.contextmanager
def huge_page_pool(pages: int) -> Iterator[None]:
    """Huge pages for hugetlb mappings."""
    with setting(HUGE_POOL, str(pages)):
        if int(HUGE_POOL.read_text()) < pages:
            raise NotAllowedError(f"only {HUGE_POOL.read_text().strip()} of {pages} huge pages could be had")
        yield


@contextlib.contextmanager
def swap_file(directory: Path, megabytes: int) -> Iterator[None]:
    """A swap file that the whole machine may use, for a while."""
    path = directory / "swap"
    path.touch(mode=0o600)
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, megabytes << 20)
    try:
        for command in (["mkswap", str(path)], ["swapon", str(path)]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise NotAllowedError(f"{' '.join(command)}: {done.stderr.strip()}")
        try:
            yield
        finally:
            subprocess.run(["swapoff", str(path)], check=True)
    finally:
        path.unlink()


class Cgroup:
    """A memory cgroup, of either version."""

    def __init__(self, name: str) -> None:
        unified = self.unified_root()
        self.root = unified or CGROUPS / "memory"
        self.path = self.root / name
        self.limit = self.path / ("memory.high" if unified else "memory.limit_in_bytes")
        try:
            self.path.mkdir()
        except OSError as error:
            raise NotAllowedError(f"no memory cgroup can be made: {error}") from error

    @staticmethod
    def unified_root() -> Path | None:
        """Where version 2 is mounted with the controller of memory; None: that is with version 1."""
        return next((root for root in (CGROUPS, CGROUPS / "unified") if _gives_memory(root)), None)

    def squeeze(self, pid: int, size: int) -> None:
        """Moves a process there with all that it has, and takes back from it what is more than `size` bytes.

        Version 1 charges only what is touched from then on, so it is to move in before it grows.
        """
        (self.path / "cgroup.procs").write_text(str(pid))
        with contextlib.suppress(OSError):  # EBUSY: it took what it could
            self.limit.write_text(str(size))

    def peak(self) -> int:
        """The most that it ever took, bytes."""
        names = ("memory.peak", "memory.max_usage_in_bytes")  # version 2, since Linux 5.19, and version 1
        found = [self.path / name for name in names if (self.path / name).exists()]
        if not found:
            raise NotAllowedError("this kernel does not tell a memory cgroup's peak")
        return int(found[0].read_text())

    def __enter__(self) -> Cgroup:  # noqa: PYI034 - Self is younger than our oldest Python
        return self

    def __exit__(self, *_: object) -> None:
        """Who was in it has ended, if perhaps not quite yet."""
        for _attempt in range(200):
            with contextlib.suppress(OSError):
                self.path.rmdir()
                return
            time.sleep(0.01)
        raise AssertionError(f"{self.path} cannot be removed")


def _gives_memory(root: Path) -> bool:
    with contextlib.suppress(OSError):
        return "memory" in (root / "cgroup.subtree_control").read_text().split()
    return False
