# SPDX-License-Identifier: MIT
"""The memory of musl's malloc, found from outside, held against the mappings and each block that a program holds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tools import cores, debian, harness, programs
from tools.mallocs import MIB, allocator, check_restless, check_rows, holding, merged, outside, regions_of


def musl_program(*flags: str, name: str = "knows") -> Path:
    return programs.build(name, *flags, compiler="musl-gcc")


def of_musl(suite: str) -> str:
    """The libc of musl in a suite, which is the loader of its programs, too."""
    root = debian.unpack("musl", suite, debian.NATIVE, {"root": ["musl"]})
    (path,) = [path for path in root.glob("root/**/*-linux-musl/libc.so") if path.is_file()]
    return str(path)


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


@pytest.mark.parametrize("flags", [(), ("-static",), ("-static", "-s")], ids=["dynamic", "static", "stripped"])
def test_all_that_musl_has_mapped(flags: tuple[str, ...], arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Each block lies in it, but for the few in the rest of the variables' last page, which musl gives to malloc."""
    with holding([musl_program(*flags)]) as (pid, blocks):
        regions = regions_of(arenadump, pid, tmp_path / "dump")
        expected = mapped_for_malloc(pid)
        own = [(start, end) for start, end, _, name in mappings(pid) if name.startswith("/")]
    assert merged(regions) == merged(expected)
    rest = outside(blocks, regions)
    assert len(rest) < 100
    assert all(any(start <= block[0] and block[1] <= end + MIB for start, end in own) for block in rest)


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_releases_of_musl(suite: str, arenadump: harness.Arenadump) -> None:
    with holding([of_musl(suite), musl_program()]) as (pid, _):
        summary = arenadump.summary(pid)
    found = allocator(summary, "musl")
    assert found["found"]
    assert 30 * MIB < found["resident"] <= found["size"] == found["committed"]
    check_rows(summary, found["resident"])


@pytest.mark.parametrize("mode", ["freeze", "clone", "live"])
def test_musl_in_each_mode(mode: str, arenadump: harness.Arenadump) -> None:
    with holding([musl_program()]) as (pid, _):
        summary = arenadump.summary(pid, f"--mode={mode}")
    check_rows(summary, allocator(summary, "musl")["resident"])


def test_wherever_it_stands(arenadump: harness.Arenadump) -> None:
    check_restless(arenadump, "musl", [musl_program(name="restless")])


def test_musl_in_a_core(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    if not shutil.which("gcore"):
        pytest.skip("gdb is not installed")
    with holding([musl_program()]) as (pid, _):
        regions = regions_of(arenadump, pid, tmp_path / "dump")
        core = cores.gcore(pid, tmp_path)
    assert regions_of(arenadump, core, tmp_path / "core-dump") == regions
