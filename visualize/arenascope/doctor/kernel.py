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

from arenascope.doctor import rights
from arenascope.doctor.check import Check, Status, Unreadable, read
from arenascope.humanize import size

if TYPE_CHECKING:
    from collections.abc import Iterator

# <linux/fs.h>, Linux 6.7: PAGEMAP_SCAN is _IOWR('f', 16, struct pm_scan_arg), a struct of twelve 64-bit fields.
PAGEMAP_SCAN: Final = 0xC060_6610
PM_SCAN_ARG: Final = struct.Struct("=12Q")
PAGE_IS_PRESENT: Final = 1 << 3


def checks() -> Iterator[Check]:
    """All of them."""
    yield Check(
        "kernel", Status.OK, f"Linux {platform.release()}, {platform.machine()}, pages of {size(mmap.PAGESIZE)}"
    )
    yield pagemap_scan()
    yield rights.ptrace()
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
            why = (
                f"not available ({error.strerror}; Linux 6.7 or later has it): pagemap is read instead, which is slower"
            )
            if error.filename:
                why = f"not known: /proc/self/pagemap is not readable ({error.strerror})"
            return Check("PAGEMAP_SCAN", Status.LIMITED, why)
    if found == 1 and struct.unpack_from("=Q", region)[0] == start:
        return Check("PAGEMAP_SCAN", Status.OK, "available")
    return Check(
        "PAGEMAP_SCAN", Status.LIMITED, "did not find a resident page of this process; pagemap is read instead"
    )


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
    meminfo = read("/proc/meminfo")
    if isinstance(meminfo, Unreadable):
        return Check("swap", Status.LIMITED, f"not readable: {meminfo.why}")
    found = re.search(r"^SwapTotal:\s*(\d+) kB", meminfo or "", re.MULTILINE)
    if not found:
        return Check("swap", Status.LIMITED, "/proc/meminfo has no SwapTotal")
    total = int(found[1]) * 1024
    return Check("swap", Status.OK, size(total) if total else "none")


def huge_pages() -> Check:
    """Transparent huge pages: with "always", memory that was returned may come back as part of a huge page."""
    modes = read("/sys/kernel/mm/transparent_hugepage/enabled")
    if isinstance(modes, Unreadable):
        return Check("transparent huge pages", Status.LIMITED, f"not readable: {modes.why}")
    chosen = re.search(r"\[(\w+)\]", modes or "")
    if not chosen:
        return Check("transparent huge pages", Status.OK, "this kernel has none")
    notes = {
        "always": "always: the kernel may back sparse heaps with whole huge pages",
        "madvise": "on request (madvise)",
    }
    return Check("transparent huge pages", Status.OK, notes.get(chosen[1], chosen[1]))
