# SPDX-License-Identifier: MIT
"""The stacks of threads: what is resident of each, and what calls have left there that returned."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tools import cores, harness, kernel, odd, programs

from arenascope.findings import Facts, judge
from arenascope.wire.summary import parse

MIB = 1 << 20
LITTLE = 64 << 10  # bytes: what a thread has of its stack besides


@contextmanager
def deep() -> Iterator[subprocess.Popen[str]]:
    program = programs.build("deep_stacks", "-pthread")
    with subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            odd.wait_for_read(process.pid)
            yield process
        finally:
            process.kill()


def check(summary: dict[str, Any], main: int) -> None:
    stacks = summary["stacks"]
    assert stacks["threads"] == 4
    assert stacks["resident"] == summary["ledger"]["stacks"] == sum(each["resident"] for each in stacks["largest"])
    assert stacks["unused"] == sum(each["unused"] for each in stacks["largest"])
    for each, used in zip(stacks["largest"], (3 * MIB, 2 * MIB, MIB), strict=False):
        assert each["name"] == "deep"
        assert used <= each["unused"] < each["resident"] <= used + LITTLE
    assert stacks["largest"][3]["tid"] == main


@pytest.mark.parametrize("mode", ["freeze", "clone"])
def test_what_threads_have_of_their_stacks(arenadump: harness.Arenadump, tmp_path: Path, mode: str) -> None:
    dump = tmp_path / "dump"
    with deep() as process:
        check(arenadump.summary(process.pid, f"--mode={mode}"), process.pid)
        arenadump.check("dump", f"--mode={mode}", "-o", dump, process.pid)
        live = arenadump.summary(process.pid, "--mode=live")
    check(json.loads(arenadump.check("summary", "--json", dump)), process.pid)
    assert live["stacks"] is None  # a thread that runs has no stack pointer that could be told


def test_a_core_without_residency_tells_none(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with deep() as process:
        core = cores.gcore(process.pid, tmp_path)
    assert arenadump.summary(core)["stacks"] is None


def test_their_end_returns_it(arenadump: harness.Arenadump) -> None:
    """As the finding says."""
    with deep() as process:
        before = arenadump.summary(process.pid)
        anonymous = kernel.total(kernel.smaps(process.pid), "Anonymous")
        (finding,) = [each for each in judge(Facts(parse(json.dumps(before)))).findings if each.rule == "stacks"]
        assert "until the thread ends. 6.0 MiB lies below the stack pointers" in finding.evidence
        assert "The largest: deep " in finding.evidence
        assert " with 3.0 MiB (3.0 MiB unused), deep " in finding.evidence
        assert process.stdin
        assert process.stdout
        process.stdin.write("x")
        process.stdin.flush()
        assert process.stdout.readline() == "ended\n"
        after = kernel.total(kernel.smaps(process.pid), "Anonymous")  # for pages of files come and go besides
    assert anonymous - after > 6 * MIB - 4 * LITTLE
