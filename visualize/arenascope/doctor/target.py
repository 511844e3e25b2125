# SPDX-License-Identifier: MIT
"""Doctor's checks on a real target: a Python of our own, parked, and inspected as any other process would be."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arenascope import api
from arenascope.coverage import total
from arenascope.doctor.check import Check, Status
from arenascope.elf import build_id
from arenascope.errors import ArenascopeError, Code
from arenascope.processes import files_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arenascope.wire.summary import Summary

DEBUG_DIRECTORY: Final = "/usr/lib/debug/.build-id"
# Says that it is there, then waits for its stdin to close: it ends with us, however we end.
PARK: Final = "import sys; sys.stdout.write('.'); sys.stdout.flush(); sys.stdin.read()"


def checks(*, can_run: bool) -> Iterator[Check]:
    """Inspecting a child, and what there was to see. `can_run`: arenadump is there."""
    with _parked() as pid:
        if not can_run:
            yield Check("inspection", Status.MISSING, "not tried: arenadump is missing", basic=True)
        else:
            try:
                summary = api.summary(pid).facts
            except ArenascopeError as error:
                yield _refused(error)
            else:
                yield inspection(summary)
                yield layout(summary)
        yield debug_information(pid)


@contextlib.contextmanager
def _parked() -> Iterator[int]:
    command = [sys.executable, "-I", "-S", "-c", PARK]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        if child.stdout:
            child.stdout.read(1)  # it is up
        yield child.pid
        # Leaving closes its stdin, which ends it, and waits for it.


def _refused(error: ArenascopeError) -> Check:
    fix = None
    if error.code == Code.DENIED:
        fix = (
            "sudo sysctl kernel.yama.ptrace_scope=0, or run arenascope with sudo; in a container: --cap-add SYS_PTRACE"
        )
    return Check("inspection", Status.MISSING, f"a child process: {error}", fix, basic=True)


def inspection(summary: Summary) -> Check:
    """Does the ledger of a process that stood still sum to what the kernel calls its Rss?"""
    rows, rss = total(summary.ledger.values()), summary.kernel.rss
    pause = summary.snapshot.pause_ms
    if rss is None or rows is None:
        return Check("inspection", Status.LIMITED, "a child process: some rows of its ledger are unknown", basic=True)
    if rows != rss:
        words = f"a child process: its rows sum to {rows}, its Rss is {rss}"
        return Check("inspection", Status.LIMITED, words, "please report this", basic=True)
    stood = "" if pause is None else f", stopped for {pause:.1f} ms"
    return Check("inspection", Status.OK, f"a child process: all {rss} bytes of its Rss have a row{stood}", basic=True)


def layout(summary: Summary) -> Check:
    """Was this machine's own libc recognised?"""
    allocator = summary.allocator
    source, malloc = allocator.layout_source, allocator.malloc
    if source is None:
        words = f"no glibc malloc was found in this Python (malloc is {malloc}'s): {allocator.detail or ''}"
        return Check("libc", Status.LIMITED, words.rstrip(": "))
    words = f"glibc {allocator.glibc or 'of unknown version'}, layout by {source}"
    if not allocator.is_glibc:
        return Check("libc", Status.LIMITED, f"{words}; but malloc() is {malloc}'s")
    return Check("libc", Status.OK, words)


def debug_information(pid: int) -> Check:
    """Is the separate debug file of that process's libc installed? Wanted by nobody but the doubtful."""
    name = "libc debug information"
    found = libc_of(pid)
    wanted = build_id(found) if found else None
    if wanted is None:
        return Check(name, Status.LIMITED, f"{found or 'no libc.so'}: no build-id found; not needed")
    path = Path(DEBUG_DIRECTORY) / wanted[:2] / f"{wanted[2:]}.debug"
    if path.exists():
        return Check(name, Status.OK, str(path))
    words = f"not installed for build-id {wanted}; not needed: layouts are found by relocations"
    return Check(name, Status.LIMITED, words, "apt-get install libc6-dbg")


def libc_of(pid: int) -> Path | None:
    """The file that a process mapped as its libc."""
    try:
        maps = (files_of(pid) / "maps").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    found = re.search(r"(/\S*/(?:libc\.so\.6|libc-2\.\d+\.so))$", maps, re.MULTILINE)
    return Path(found[1]) if found else None
