# SPDX-License-Identifier: MIT
"""CPython's arenas, found from outside in interpreters of many releases, held against what each says of itself."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import platform
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tools import cores, harness, interpreters, odd, tiers

F_SETPIPE_SZ = 1031
WRITE = "64" if platform.machine() == "aarch64" else "1"  # the system call's number
PAGE = os.sysconf("SC_PAGESIZE")
# It fills many pools of many sizes, thins them out, and empties some wholly. Then it says what its allocator has.
PROGRAM = """
import sys
kept = {}
for i in range(60000):
    kept[i] = [i, str(i) * (i % 40), (i,) * (i % 50)]
for i in range(60000):
    if i % 3 == 0 or 10000 < i < 30000:
        del kept[i]
sys.stdin.readline()
sys._debugmallocstats()
sys.stdin.readline()
"""
FIRST_ARENAS = 16  # elements of the table, before it grows
ZEROS = """
import sys
kept = []
for i in range(500000):
    kept.append([i])
    if i % 10 == 0:
        kept.append(bytearray(1000))
sys.stdin.readline()
sys._debugmallocstats()
sys.stdin.readline()
"""
CLASS = re.compile(r"^ +\d+ +(\d+) +(\d+) +(\d+) +(\d+)$", re.MULTILINE)


class Says:
    """What sys._debugmallocstats() printed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.classes = {
            int(size): (int(pools), int(used), int(free)) for size, pools, used, free in CLASS.findall(text)
        }

    def number(self, what: str) -> int:
        found = re.search(what + r".*= +([\d,]+)$", self.text, re.MULTILINE)
        assert found, what
        return int(found[1].replace(",", ""))


class Stuck:
    """A Python that has counted its blocks and cannot say so: the pipe is full. Nothing changes meanwhile."""

    def __init__(self, process: subprocess.Popen[bytes], errors: int) -> None:
        self.process, self.errors = process, errors
        self.pid = process.pid

    def says(self) -> Says:
        """Lets it go on, and reads."""
        text = b""
        while b"arena alignment" not in text:
            text += os.read(self.errors, 1 << 16)
        return Says(text.replace(b"\0", b"").decode())


def is_stuck(pid: int) -> bool:
    """Does it wait in write(2) to its standard error?"""
    return Path(f"/proc/{pid}/syscall").read_text().split()[:2] == [WRITE, "0x2"]


@contextmanager
def stuck(which: str | interpreters.Python, program: str = PROGRAM, **environment: str) -> Iterator[Stuck]:
    python = interpreters.python(which) if isinstance(which, str) else which
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, F_SETPIPE_SZ, PAGE)
    with subprocess.Popen(
        python.command("-c", program),
        env={**python.environment, **environment},
        stdin=subprocess.PIPE,
        stderr=theirs,
    ) as process:
        try:
            os.write(theirs, bytes(PAGE))
            os.close(theirs)
            assert process.stdin
            process.stdin.write(b"\n")
            process.stdin.flush()
            deadline = time.monotonic() + 600
            while not is_stuck(process.pid):
                assert process.poll() is None, f"it ended with {process.returncode}"
                assert time.monotonic() < deadline, "it does not come to its end"
                time.sleep(0.02)
            yield Stuck(process, ours)
        finally:
            process.kill()
            os.close(ours)


def check_against(found: dict[str, Any], says: Says) -> None:
    assert found["found"]
    assert found["regions"] == says.number("arenas allocated current")
    assert found["in_use"] == says.number("bytes in allocated blocks")
    assert found["free"] == says.number("bytes in available blocks")
    assert found["empty"] == says.number("unused pools")
    assert found["size"] == found["regions"] * found["region_size"]
    classes = {c["size"]: (c["pools"], c["in_use"], c["free"]) for c in found["size_classes"]}
    assert classes == {size: counts for size, counts in says.classes.items() if counts[0]}


def cpython(summary: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = summary["runtimes"]
    assert found["runtime"] == "cpython"
    assert found["row"] == "python_arenas"
    return found


@pytest.mark.parametrize("mode", ["freeze", "clone"])
@pytest.mark.parametrize("release", tiers.runtimes([*interpreters.PYTHONS, *interpreters.OTHER_PYTHONS]))
def test_all_blocks_are_counted(arenadump: harness.Arenadump, release: str, mode: str) -> None:
    with stuck(release) as program:
        summary = arenadump.summary(program.pid, f"--mode={mode}")
        says = program.says()
    assert summary["snapshot"]["exact"]
    found = cpython(summary)
    check_against(found, says)
    # The row is taken out of others, and is about what the arenas can be.
    ledger = summary["ledger"]
    assert sum(ledger.values()) == summary["kernel"]["rss"]
    assert found["in_use"] < ledger["python_arenas"] <= found["size"]
    assert ledger["python_arenas"] - found["empty_resident"] <= found["size"] - found["empty"]
    assert ledger["other_anon"] < 0.1 * summary["kernel"]["rss"]


def under_another_name(release: str, path: Path, hidden: tuple[bytes, ...] = ()) -> interpreters.Python:
    """A copy of the program, and without these names that it exports."""
    python = interpreters.python(release)
    program = Path(python.program[-1]).read_bytes()
    for name in hidden:
        assert program.count(b"\0" + name + b"\0") == 1
        program = program.replace(b"\0" + name + b"\0", b"\0" + b"x" * len(name) + b"\0")
    path.write_bytes(program)
    path.chmod(0o700)
    return dataclasses.replace(python, program=(*python.program[:-1], str(path)))


@pytest.mark.parametrize("release", tiers.runtimes([*interpreters.PYTHONS]))
def test_a_program_of_any_name(arenadump: harness.Arenadump, release: str, tmp_path: Path) -> None:
    """CPython is known by the names that it exports."""
    with stuck(under_another_name(release, tmp_path / "orders-svc")) as program:
        summary = arenadump.summary(program.pid, "--mode=freeze")
        check_against(cpython(summary), program.says())


@pytest.mark.nightly("runtimes")
@pytest.mark.parametrize(("release", "found"), [("3.9", 0), ("3.11", 1), ("3.13", 1), ("3.14", 1)])
def test_a_program_that_exports_nothing(arenadump: harness.Arenadump, release: str, found: int, tmp_path: Path) -> None:
    """From 3.11 on a section of the program says what it is."""
    with stuck(under_another_name(release, tmp_path / "svc", (b"_PyRuntime", b"PyType_Type"))) as program:
        summary = arenadump.summary(program.pid, "--mode=freeze")
        assert [each["runtime"] for each in summary["runtimes"]] == ["cpython"] * found
        if found:
            check_against(cpython(summary), program.says())


def test_a_name_alone_is_no_python(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    path = tmp_path / "python3-launcher"
    path.write_bytes(Path("/bin/sleep").read_bytes())
    path.chmod(0o700)
    with odd.asleep(path, "600") as process:
        summary = arenadump.summary(process.pid)
    assert not summary["runtimes"]
    assert "Python" not in str(summary["warnings"])


@pytest.mark.parametrize("release", tiers.runtimes([*interpreters.PYTHONS, *interpreters.OTHER_PYTHONS]))
def test_zeros_behind_the_table(arenadump: harness.Arenadump, release: str) -> None:
    """The table grows in the middle of the loop: blocks of malloc that are full of zeros follow."""
    with stuck(release, program=ZEROS) as program:
        summary = arenadump.summary(program.pid, "--mode=freeze")
        says = program.says()
    check_against(cpython(summary), says)
    assert says.number("arenas allocated current") > FIRST_ARENAS


def test_while_it_runs(arenadump: harness.Arenadump) -> None:
    with stuck("3.11") as program:
        summary = arenadump.summary(program.pid, "--mode=live")
        says = program.says()
    check_against(cpython(summary), says)


def test_a_core(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with stuck("3.13") as program:
        core = cores.gcore(program.pid, tmp_path)
        says = program.says()
    summary = arenadump.summary(core)
    found = cpython(summary)
    check_against(found, says)
    assert summary["ledger"]["python_arenas"] is None
    assert found["empty_resident"] is None


def test_a_python_that_does_not_use_its_allocator(arenadump: harness.Arenadump) -> None:
    python = interpreters.python("3.11")
    command = python.command("-c", "import sys; print(flush=True); sys.stdin.readline()")
    with subprocess.Popen(
        command, env={**python.environment, "PYTHONMALLOC": "malloc"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        summary = arenadump.summary(process.pid)
        process.kill()
    found = cpython(summary)
    assert not found["found"]
    assert found["in_use"] is None
    assert summary["ledger"]["python_arenas"] is None
    assert any("PYTHONMALLOC=malloc" in warning["text"] for warning in summary["warnings"])
    known = [bytes_ for row, bytes_ in summary["ledger"].items() if row != "python_arenas"]
    assert sum(known) == summary["kernel"]["rss"]


def test_where_there_is_no_python_there_are_no_arenas(arenadump: harness.Arenadump) -> None:
    with odd.asleep() as process:
        summary = arenadump.summary(process.pid)
    assert summary["runtimes"] == []
    assert summary["ledger"]["python_arenas"] == 0
