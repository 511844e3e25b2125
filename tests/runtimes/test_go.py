# SPDX-License-Identifier: MIT
"""Go's heap, found from outside, held against what Go says of itself; and a heap that is none."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tools import harness, programs
from tools.bounded import MEMORY, take_snapshot

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

MIB = 1 << 20


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stripped: nothing in it has a name."""
    if not shutil.which("go"):
        pytest.skip("go is not installed (Debian: golang-go)")
    path = tmp_path_factory.mktemp("go") / "holds"
    source = programs.SOURCES / "holds.go"
    subprocess.run(["go", "build", "-ldflags=-s -w", "-o", path, source], check=True)
    return path


def releases() -> list[str]:
    """Each Go that is installed."""
    found = [shutil.which("go"), *(str(path) for path in sorted(Path("/usr/lib").glob("go-*/bin/go")))]
    return sorted({os.path.realpath(each) for each in found if each})


@pytest.fixture(scope="module", params=releases() or [""])
def go(request: pytest.FixtureRequest) -> str:
    if not request.param:
        pytest.skip("go is not installed (Debian: golang-go)")
    return str(request.param)


@contextmanager
def running(program: Path) -> Iterator[tuple[int, int]]:
    """The PID, and how many bytes Go has for its heap and its stacks."""
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin
            assert process.stdout
            process.stdin.write("\n")
            process.stdin.flush()
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.parametrize("mode", ["freeze", "clone"])
def test_heap_is_a_row_of_its_own(arenadump: harness.Arenadump, program: Path, mode: str) -> None:
    with running(program) as (pid, says):
        summary = arenadump.summary(pid, f"--mode={mode}")
    found: dict[str, Any]
    (found,) = summary["runtimes"]
    assert (found["runtime"], found["part"], found["row"]) == ("go", "heap", "managed")
    assert found["found"]
    assert found["size"] == found["committed"] == says
    ledger = summary["ledger"]
    assert 60 * MIB < ledger["managed"] == found["resident"] <= says
    assert sum(ledger.values()) == summary["kernel"]["rss"]
    # The stacks of goroutines lie in the heap, whose mapping is no stack for that.
    assert ledger["stacks"] < MIB
    assert ledger["other_anon"] < 0.1 * summary["kernel"]["rss"]


def with_goroutines(go: str, folder: Path, *flags: str) -> Path:
    program = folder / "goroutines"
    source = programs.SOURCES / "goroutines.go"
    environment = {**os.environ, "GO111MODULE": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local"}
    subprocess.run([go, "build", *flags, "-o", program, source], check=True, env=environment)
    return program


def asked(process: subprocess.Popen[str], line: str = "") -> tuple[int, int]:
    """The number of its own goroutines and the bytes of stacks, as a program says them."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    goroutines, stacks = process.stdout.readline().split()
    return int(goroutines), int(stacks)


@pytest.mark.parametrize("symbols", [True, False], ids=["symbols", "stripped"])
def test_stacks_and_goroutines_are_as_go_says(
    arenadump: harness.Arenadump, go: str, *, symbols: bool, tmp_path: Path
) -> None:
    program = with_goroutines(go, tmp_path, *([] if symbols else ["-ldflags=-s -w"]))
    with (
        (tmp_path / "printed").open("w") as printed,
        subprocess.Popen(
            [program],
            env={**os.environ, "GOTRACEBACK": "system"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            text=True,
        ) as process,
    ):
        try:
            own, before = asked(process)
            (found,) = arenadump.summary(process.pid)["runtimes"]
            _, after = asked(process)
            process.send_signal(signal.SIGQUIT)
            process.wait()  # with its input open: at the end of the input it would end itself
        finally:
            process.kill()
    says = found["goroutines"]
    assert own == 5321
    # A thread that Go starts meanwhile has a stack, too.
    assert before <= says["stacks"] <= after
    assert 0.9 * before < says["stacks_resident"] <= before
    # Number 0 is a thread's own.
    printed_goroutines = re.findall(r"^goroutine [1-9]", (tmp_path / "printed").read_text(), re.MULTILINE)
    assert own < says["count"] == len(printed_goroutines)
    # Three thousand have ended, of which Go may have used some again for its own.
    assert 2900 < says["free"] <= 3000


def test_while_go_collects_garbage(arenadump: harness.Arenadump, go: str, tmp_path: Path) -> None:
    """It has work buffers beside the stacks then, and a second table of goroutines."""
    with subprocess.Popen(
        [with_goroutines(go, tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            own, stacks = asked(process, "collect")
            for _ in range(10):
                (found,) = arenadump.summary(process.pid, "--mode=freeze")["runtimes"]
                # Go's own are few, and a collection frees some stacks and takes others.
                assert own < found["goroutines"]["count"] < own + 50
                assert abs(found["goroutines"]["stacks"] - stacks) < MIB
        finally:
            process.kill()


def test_another_release_is_unknown_and_not_zero(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """A heap is found, and what describes its arenas resembles no release's."""
    dump = forged("true", arenadump, tmp_path)
    for field in ("stacks", "stacks_resident", "goroutines", "free_goroutines"):
        assert [int(value) for value in dump.runtimes[field]] == [fmt.UNKNOWN]


def forged(kind: str, arenadump: harness.Arenadump, scratch: Path) -> Dump:
    with subprocess.Popen([programs.build("forged_go"), kind], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            dump = take_snapshot(arenadump, process.pid, scratch, MEMORY)
        finally:
            process.kill()
    assert dump is not None
    assert [int(kind) for kind in dump.runtimes["kind"]] == [fmt.RuntimeKind.GO]
    managed = int(dump.totals["ledger"]["managed"])
    rows = [int(dump.totals["ledger"][row]) for row in fmt.LEDGER_ROWS if row != "managed"]
    assert sum(rows) + (0 if managed == fmt.UNKNOWN else managed) == int(dump.meta["rss"])
    return dump


@pytest.mark.parametrize("kind", ["empty", "leads", "full", "endless", "malloc"])
def test_what_is_not_gos_is_not_believed(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = forged(kind, arenadump, tmp_path)
    assert list(dump.runtimes["state"]) == [fmt.RuntimeState.UNPROVEN]
    assert len(dump.regions) == 0
    assert int(dump.totals["ledger"]["managed"]) == fmt.UNKNOWN


def test_what_is_as_go_has_it_is_found(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Else the tests above could not fail."""
    dump = forged("true", arenadump, tmp_path)
    assert list(dump.runtimes["state"]) == [fmt.RuntimeState.FOUND]
    assert [int(size) for size in dump.regions["size"]] == [MIB, MIB]
    assert int(dump.totals["ledger"]["managed"]) == 2 << 16
