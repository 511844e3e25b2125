# SPDX-License-Identifier: MIT
"""How much of what well-known programs hold has a type and an owner (`make bench`).

    held.py            all that are installed
    held.py ruby gdb   these

The programs, and what they hold, are those of rows.py, and gdb, clang, git, and Python with numpy.
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import rows
from tools import marked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEAST = 0.5  # per cent: evidence for less is not printed
LARGE = (
    "#include <algorithm>\n#include <functional>\n#include <iostream>\n#include <map>\n#include <regex>\n"
    + "".join(
        f'int f{i}(std::map<std::string, int> &m) {{ std::regex r{{"a"}}; return m[std::string("{i}")]; }}\n'
        for i in range(2000)
    )
)

NUMPY = """
import numpy
kept = [numpy.arange(i % 3000, dtype=float) for i in range(5000)] + [numpy.random.rand(1000, 300)]
table = numpy.array([(i, "name %d" % i) for i in range(20000)], dtype=[("number", int), ("name", "U20")])
print("ready", flush=True)
input()
"""


@contextmanager
def gdb(folder: Path) -> Iterator[int]:
    """It has read the symbols of arenadump."""
    with rows.running("gdb", "-q", "-nx", rows.ARENADUMP, folder=folder) as process:
        assert process.stdin
        process.stdin.write(b"info line main\n")
        process.stdin.flush()
        rows.await_that("gdb", "grep", "Line", folder / "log")
        yield process.pid


@contextmanager
def clang(folder: Path) -> Iterator[int]:
    """In the middle of a large file."""
    (folder / "large.cc").write_text(LARGE)
    command = ("clang++", "-O1", "-fintegrated-cc1", "-c", "large.cc", "-o", "/dev/null")
    with rows.running(*command, folder=folder) as process:
        time.sleep(8)
        yield process.pid


@contextmanager
def redis(folder: Path) -> Iterator[int]:
    """On glibc's malloc: libc comes before the jemalloc that Debian's redis is linked with."""
    with rows.redis(folder, "env", "LD_PRELOAD=libc.so.6") as pid:
        yield pid


@contextmanager
def git(folder: Path) -> Iterator[int]:
    """It has read each object of a repository, and waits for another's name."""
    subprocess.run(["git", "clone", "--quiet", "--bare", rows.ROOT, folder / "clone"], check=True)
    listed = subprocess.run(
        ["git", "-C", folder / "clone", "rev-list", "--objects", "--all", "--no-object-names"],
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    with rows.running("git", "-C", folder / "clone", "cat-file", "--batch", folder=folder) as process:
        assert process.stdin
        process.stdin.write(listed + b"none\n")
        process.stdin.flush()
        rows.await_that("git", "grep", "-a", "none missing", folder / "log")
        yield process.pid


PROGRAMS = {
    **rows.PROGRAMS,
    "numpy": lambda folder: rows.script("/usr/bin/python3", "-c", NUMPY, folder=folder),
    "gdb": gdb,
    "clang": clang,
    "git": git,
    "redis-server": redis,
}


COLUMNS = ("program", "in use, MiB", "typed, %", "by evidence", "one owner, %", "a stack, %", "several, %", "lost, %")
TABLE = marked.Table("bench", "held", (*COLUMNS, "commit", "date"))


def row(answer: dict[str, Any]) -> tuple[str, ...]:
    """Shares of all bytes in use."""
    total = answer["graph"]["bytes"]
    if not total:
        raise rows.MissingError("glibc has no chunk in use")
    types: Counter[str] = Counter()
    owners: Counter[str] = Counter()
    for branch in answer["branches"]:
        types[branch["evidence"] or "none"] += branch["bytes"]
        if branch["owner"]:
            owners[branch["owner"]["kind"]] += branch["retained"]
    several = owners.pop("several", 0)
    stacks = sum(owners.pop(kind, 0) for kind in ("stack", "registers", "frames"))
    share = {kind: 100 * held / total for kind, held in types.most_common() if kind != "none"}
    named = ", ".join(f"{kind} {part:.1f}" for kind, part in share.items() if part >= LEAST)
    parts = (sum(owners.values()), stacks, several, answer["unreached"])
    return f"{total / (1 << 20):.1f}", f"{sum(share.values()):.1f}", named, *(f"{100 * p / total:.1f}" for p in parts)


if __name__ == "__main__":
    rows.measure(TABLE, PROGRAMS, ["owners"], row)
