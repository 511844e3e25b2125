# SPDX-License-Identifier: MIT
"""The memory of musl's malloc, found from outside, held against the mappings and each block that a program holds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools import cores, debian, harness, programs
from tools.mallocs import MIB, allocator, answer, check_rows, running

from arenascope.dump import Dump


def musl_program(*flags: str) -> Path:
    try:
        return programs.build("knows", *flags, compiler="musl-gcc")
    except debian.UnavailableError as reason:
        pytest.skip(str(reason))


def of_musl(suite: str) -> str:
    """The libc of musl in a suite, which is the loader of its programs, too."""
    try:
        root = debian.unpack("musl", suite, debian.NATIVE, {"root": ["musl"]})
    except debian.UnavailableError as reason:
        pytest.skip(str(reason))
    (path,) = [path for path in root.glob("root/**/*-linux-musl/libc.so") if path.is_file()]
    return str(path)


@contextmanager
def with_musl(command: Sequence[str | Path]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """The PID of a program, and the blocks that it holds: from where, up to where."""
    with running(command) as process:
        blocks = []
        while (line := answer(process)) != "ready\n":
            address, size = (int(word, 16) for word in line.split())
            blocks.append((address, address + size))
        assert len(blocks) > 10000
        yield process.pid, blocks


def regions_of(arenadump: harness.Arenadump, target: int | Path, path: Path) -> list[tuple[int, int]]:
    arenadump.check("dump", "-o", path, target)
    return [(int(r["address"]), int(r["address"] + r["size"])) for r in Dump(path).regions]


def mappings(pid: int) -> list[tuple[int, int, str, str]]:
    lines = [line.split(None, 5) for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    found = []
    for range_, protection, *_, name in ([*words, ""][:6] for words in lines):
        start, end = range_.split("-")
        found.append((int(start, 16), int(end, 16), protection, name))
    return found


def mapped_for_malloc(pid: int) -> list[tuple[int, int]]:
    """What can be written and has no file, but for the variables behind a file's, and the stack."""
    found, before = [], (0, 0, "", "")
    for start, end, protection, name in mappings(pid):
        variables = before[3].startswith("/") and before[1] == start and name == ""
        if protection == "rw-p" and name in {"", "[heap]"} and not variables:
            found.append((start, end))
        before = (start, end, protection, name)
    return found


def merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if out and out[-1][1] == start:
            out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    return out


@pytest.mark.parametrize("flags", [(), ("-static",), ("-static", "-s")], ids=["dynamic", "static", "stripped"])
def test_all_that_musl_has_mapped(flags: tuple[str, ...], arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Each block lies in it, but for the few in the rest of the variables' last page, which musl gives to malloc."""
    with with_musl([musl_program(*flags)]) as (pid, blocks):
        regions = regions_of(arenadump, pid, tmp_path / "dump")
        expected = mapped_for_malloc(pid)
        own = [(start, end) for start, end, _, name in mappings(pid) if name.startswith("/")]
    assert merged(regions) == merged(expected)
    outside = [b for b in blocks if not any(start <= b[0] and b[1] <= end for start, end in merged(regions))]
    assert len(outside) < 100
    assert all(any(start <= block[0] and block[1] <= end + (1 << 20) for start, end in own) for block in outside)


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_releases_of_musl(suite: str, arenadump: harness.Arenadump) -> None:
    with with_musl([of_musl(suite), musl_program()]) as (pid, _):
        summary = arenadump.summary(pid)
    found = allocator(summary, "musl")
    assert found["found"]
    assert 30 * MIB < found["resident"] <= found["size"] == found["committed"]
    check_rows(summary, found["resident"])


@pytest.mark.parametrize("mode", ["freeze", "snapshot", "live"])
def test_musl_in_each_mode(mode: str, arenadump: harness.Arenadump) -> None:
    with with_musl([musl_program()]) as (pid, _):
        summary = arenadump.summary(pid, f"--mode={mode}")
    check_rows(summary, allocator(summary, "musl")["resident"])


def test_musl_in_a_core(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    if not shutil.which("gcore"):
        pytest.skip("gdb is not installed")
    with with_musl([musl_program()]) as (pid, _):
        regions = regions_of(arenadump, pid, tmp_path / "dump")
        core = cores.gcore(pid, tmp_path)
    assert regions_of(arenadump, core, tmp_path / "core-dump") == regions
