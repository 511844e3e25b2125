# SPDX-License-Identifier: MIT
"""The memory of mimalloc 3, found from outside, held against each block that a program holds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tools import cores, debian, harness, programs, tiers
from tools.mallocs import MIB, allocator, answer, check_restless, check_rows, holding, outside, regions_of, running
from tools.preload import preloadable

from arenascope.findings import Facts, judge
from arenascope.wire.summary import parse

SUITES = ("trixie", "forky")  # 3.0.1; 3.6, where the map begins with a description, and pages are described elsewhere
CONFIGURE = ("./configure", "--quiet", "--disable-gil", "--without-ensurepip", "CFLAGS=-O1 -g0")
HOLDS = """
import sys
small = [{i: str(i)} for i in range(200000)]
large = [bytes(5 << 20) for _ in range(4)]
assert not sys._is_gil_enabled()
print("ready", flush=True)
input()
"""


def under_mimalloc(suite: str, *args: str, program: str = "knows") -> list[str]:
    """The command that runs a program with the libc and the mimalloc of a suite."""
    root = debian.unpack("libmimalloc3", suite, debian.NATIVE, {"root": ["libmimalloc3"]})
    command = debian.libc(suite).command(programs.build_portable(program), *args)
    (preload,) = [path for path in root.glob("root/usr/lib/*/libmimalloc.so.3.*") if not path.is_symlink()]
    return [*command[:3], "--preload", str(preloadable(preload)), *command[3:]]


@pytest.mark.parametrize("mode", ["freeze", "clone", "live"])
@pytest.mark.parametrize("suite", tiers.daily(SUITES, SUITES[1:], part="runtimes"))
def test_all_blocks_are_in_it(suite: str, mode: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Those of 50 MiB, too, which have mappings of their own in 3.0."""
    with holding(under_mimalloc(suite, "50")) as (pid, blocks):
        summary = arenadump.summary(pid, f"--mode={mode}")
        regions = regions_of(arenadump, pid, tmp_path / "dump")
    found = allocator(summary, "mimalloc")
    assert found["found"]
    assert "mimalloc's map" in found["evidence"]
    assert found["size"] == found["committed"] == sum(end - start for start, end in regions)
    assert outside(blocks, regions) == []
    check_rows(summary, found["resident"])
    assert summary["ledger"]["other_anon"] < MIB  # the variables of the program and its libraries


@pytest.mark.parametrize("suite", tiers.daily(SUITES, SUITES[1:], part="runtimes"))
def test_it_is_in_a_core(suite: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    if not shutil.which("gcore"):
        pytest.skip("gdb is not installed")
    with holding(under_mimalloc(suite)) as (pid, blocks):
        core = cores.gcore(pid, tmp_path)
    assert outside(blocks, regions_of(arenadump, core, tmp_path / "dump")) == []


@pytest.mark.parametrize("suite", tiers.daily(SUITES, SUITES[1:], part="runtimes"))
def test_a_library_has_it_beside_glibc(suite: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """As in pyarrow's libarrow: malloc() is glibc's. Its next step alone is printed."""
    preloaded = under_mimalloc(suite, "mi_malloc", "20000", "3000", program="loads_allocator")
    at = preloaded.index("--preload")
    mimalloc, program = preloaded[at + 1], preloaded.index("mi_malloc")
    command = [*preloaded[:at], *preloaded[at + 2 : program], mimalloc, *preloaded[program:]]
    with holding(command) as (pid, blocks):
        summary = arenadump.summary(pid)
        regions = regions_of(arenadump, pid, tmp_path / "dump")
        (first, *_) = judge(Facts(parse(arenadump.check("summary", "--json", pid)))).findings
    assert summary["allocator"]["malloc"] == "glibc"
    assert allocator(summary, "mimalloc")["found"]
    assert outside(blocks, regions) == []
    assert first.rule == "other malloc"
    assert [step.command for step in first.next] == ["export MIMALLOC_SHOW_STATS=1"]


@pytest.mark.parametrize("suite", tiers.daily(SUITES, SUITES[1:], part="runtimes"))
def test_wherever_it_stands(suite: str, arenadump: harness.Arenadump) -> None:
    """The map of 3.0 still has pages that were freed long ago."""
    check_restless(arenadump, "mimalloc", under_mimalloc(suite, program="restless"))


@pytest.mark.parametrize("suite", tiers.daily(SUITES, SUITES[1:], part="runtimes"))
def test_its_next_step_works(suite: str, arenadump: harness.Arenadump) -> None:
    with holding(under_mimalloc(suite)) as (pid, _):
        facts = Facts(parse(arenadump.check("summary", "--json", pid)))
    (step,) = judge(facts).findings[0].next
    name, _, value = step.command.removeprefix("export ").partition("=")
    done = subprocess.run(
        under_mimalloc(suite),
        stdin=subprocess.DEVNULL,
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"committed *:.*MiB", done.stderr)


@pytest.fixture(scope="module")
def free_threaded() -> Path:
    """CPython without the GIL, made of Debian's source and kept: no release has a package of it."""
    tarball = debian.source("trixie", "python3.13")
    home = debian.CACHE / "free-threaded"
    program = home / "python3.13t"
    if not program.exists():
        home.mkdir(exist_ok=True)
        subprocess.run(["tar", "-xf", tarball, "-C", home, "--strip-components=1"], check=True)
        subprocess.run(CONFIGURE, cwd=home, check=True, capture_output=True)
        subprocess.run(["make", "-s", "-j2", "python"], cwd=home, check=True, capture_output=True)
        shutil.copy(home / "python", program)
    return program


@pytest.mark.nightly("runtimes")
def test_python_without_the_gil(arenadump: harness.Arenadump, free_threaded: Path) -> None:
    """It has mimalloc 2.1 inside, beside glibc's malloc. Its objects are not divided, and a warning says so."""
    with running([free_threaded, "-S", "-c", HOLDS]) as process:
        assert answer(process) == "ready\n"
        summary = arenadump.summary(process.pid, "--objects")
    found = allocator(summary, "mimalloc")
    assert found["found"]
    assert 80 * MIB < found["resident"] <= found["size"]
    assert summary["allocator"]["malloc"] == "glibc"
    assert [r["objects"] for r in summary["runtimes"]] == [None, None]
    assert any("free-threaded build of Python" in warning["text"] for warning in summary["warnings"])
    assert summary["ledger"]["other_anon"] < MIB
