# SPDX-License-Identifier: MIT
"""Doctor's checks of the kernel: what it can tell, whom it tells, and how it hands out memory."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arenascope.doctor.check import Check, Status, read_text
from arenascope.humanize import size

if TYPE_CHECKING:
    from collections.abc import Iterator

# <linux/fs.h>, Linux 6.7: PAGEMAP_SCAN is _IOWR('f', 16, struct pm_scan_arg), a struct of twelve 64-bit fields.
PAGEMAP_SCAN: Final = 0xC060_6610
PM_SCAN_ARG: Final = struct.Struct("=12Q")
PAGE_IS_PRESENT: Final = 1 << 3
CAP_SYS_PTRACE: Final = 19
OPENS_PAGEMAP: Final = (1 << 1) | (1 << 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def checks() -> Iterator[Check]:
    """All of them."""
    yield Check(
        "kernel", Status.OK, f"Linux {platform.release()}, {platform.machine()}, pages of {size(mmap.PAGESIZE)}"
    )
    yield pagemap_scan()
    yield ptrace_scope()
    yield map_files()
    yield swap()
    yield huge_pages()


def pagemap_scan() -> Check:
    """Tried on a page of our own, just written to."""
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        page[0] = 1
        object_at = ctypes.c_char.from_buffer(page)
        start = ctypes.addressof(object_at)
        del object_at  # or the page could not be unmapped
        region = bytearray(24)  # one struct page_region
        target = (ctypes.c_char * len(region)).from_buffer(region)
        # size, flags; start, end, walk_end, vec, vec_len, max_pages; categories: inverted, mask, any of, returned
        fields = (
            start,
            start + mmap.PAGESIZE,
            0,
            ctypes.addressof(target),
            1,
            0,
            0,
            0,
            PAGE_IS_PRESENT,
            PAGE_IS_PRESENT,
        )
        argument = bytearray(PM_SCAN_ARG.pack(PM_SCAN_ARG.size, 0, *fields))
        try:
            with Path("/proc/self/pagemap").open("rb", buffering=0) as pagemap:
                found = fcntl.ioctl(pagemap, PAGEMAP_SCAN, argument)
        except OSError as error:
            words = (
                f"not available ({error.strerror}; Linux 6.7 or later has it): pagemap is read instead, which is slower"
            )
            return Check("PAGEMAP_SCAN", Status.LIMITED, words)
    if found == 1 and struct.unpack_from("=Q", region)[0] == start:
        return Check("PAGEMAP_SCAN", Status.OK, "available")
    return Check(
        "PAGEMAP_SCAN", Status.LIMITED, "did not find a resident page of this process; pagemap is read instead"
    )


def ptrace_scope() -> Check:
    """Whom the kernel lets inspect whom, besides the plain rule of "same user"."""
    scope = read_text("/proc/sys/kernel/yama/ptrace_scope")
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)", read_text("/proc/self/status") or "", re.MULTILINE)
    held = int(effective[1], 16) if effective else 0
    capable = bool(held >> CAP_SYS_PTRACE & 1)
    who = f"kernel.yama.ptrace_scope is {scope}" if scope else "Yama is not active"
    if scope == "3":
        words = f"{who}: no process may be inspected until the next boot"
        return Check("ptrace", Status.LIMITED, words, "set kernel.yama.ptrace_scope=0 in /etc/sysctl.d and reboot")
    if capable and not held & OPENS_PAGEMAP:
        words = f"{who}; CAP_SYS_PTRACE is held, CAP_DAC_READ_SEARCH is not: only your own processes can be inspected"
        return Check("ptrace", Status.LIMITED, words, "run arenascope with sudo, or with both capabilities")
    if capable:
        return Check(
            "ptrace",
            Status.OK,
            f"{who}; CAP_SYS_PTRACE is held: every process of this container or machine can be inspected",
        )
    if scope in {"1", "2"}:
        words = f"{who}: {'only descendants can be inspected' if scope == '1' else 'a snapshot needs CAP_SYS_PTRACE'}"
        return Check(
            "ptrace", Status.LIMITED, words, "sudo sysctl kernel.yama.ptrace_scope=0, or run arenascope with sudo"
        )
    return Check("ptrace", Status.OK, f"{who}; without CAP_SYS_PTRACE: your own processes can be inspected")


def map_files() -> Check:
    """/proc/PID/map_files opens a libc whose file was deleted or replaced; the kernel wants a capability for it."""
    folder = Path("/proc/self/map_files")
    try:
        entry = next(iter(folder.iterdir()))
        os.close(os.open(entry, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except (OSError, StopIteration) as error:
        reason = error.strerror if isinstance(error, OSError) else "empty"
        words = f"denied ({reason}): a libc whose file was deleted or replaced is recognised only from its memory"
        return Check("map_files", Status.LIMITED, words, "for such targets, run arenascope with sudo")
    return Check("map_files", Status.OK, "allowed: deleted and replaced libc files can be read")


def swap() -> Check:
    """Whether there is any: rows of swapped bytes are then to be expected."""
    found = re.search(r"^SwapTotal:\s*(\d+) kB", read_text("/proc/meminfo") or "", re.MULTILINE)
    if not found:
        return Check("swap", Status.LIMITED, "/proc/meminfo has no SwapTotal")
    total = int(found[1]) * 1024
    return Check("swap", Status.OK, size(total) if total else "none")


def huge_pages() -> Check:
    """Transparent huge pages: with "always", memory that was returned may come back as part of a huge page."""
    modes = read_text("/sys/kernel/mm/transparent_hugepage/enabled")
    chosen = re.search(r"\[(\w+)\]", modes or "")
    if not chosen:
        return Check("transparent huge pages", Status.OK, "this kernel has none")
    notes = {
        "always": "always: the kernel may back sparse heaps with whole huge pages",
        "madvise": "on request (madvise)",
    }
    return Check("transparent huge pages", Status.OK, notes.get(chosen[1], chosen[1]))
