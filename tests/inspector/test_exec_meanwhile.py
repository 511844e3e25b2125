# SPDX-License-Identifier: MIT
"""Inspects a process of many threads that executes itself again and again, from its main thread or from another one."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools import harness, injection, odd, programs

SECONDS = 10
OK, DENIED, GONE = 0, 4, 7
PATIENCE = 60
MOST_SNAPSHOTS = 1000
AT_AN_EXEC = "ended, or started another program (exec), during the snapshot"
EXPECTED = {DENIED: "was resumed after"}  # on a busy machine


@contextmanager
def executing(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """The program, which must not be harmed."""
    program = programs.build("execs_itself")
    with subprocess.Popen([str(program), *words]) as process:
        try:
            yield process
            assert process.poll() is None
        finally:
            process.kill()


@pytest.mark.parametrize("mode", ["freeze", "live"])
def test_no_snapshot_says_that_it_has_ended(arenadump: harness.Arenadump, mode: str) -> None:
    """With few threads, most snapshots meet an exec, and some the time in which the first thread is over."""
    said: Counter[str] = Counter()
    with executing("x", "other", "3") as process:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            command = [str(arenadump.path), "summary", str(process.pid), "--json", f"--mode={mode}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
            known = (
                done.returncode == OK or AT_AN_EXEC in done.stderr or EXPECTED.get(done.returncode, "?") in done.stderr
            )
            said["" if known else done.stderr] += 1
    assert set(said) == {""}, said


@pytest.mark.parametrize(("denied", "code"), [(5, OK), (1000, DENIED)], ids=["while it executes", "for good"])
def test_an_attachment_that_is_refused(selfcheck: Path, arenadump: harness.Arenadump, denied: int, code: int) -> None:
    """By execs of other threads it may be so several times, one after the other: that is no lack of permission."""
    library = odd.build("ptrace_faults", "-shared", "-fPIC", "-ldl")
    environment = {**os.environ, "LD_PRELOAD": str(library), "DENIED": str(denied)}
    with injection.selfcheck(str(selfcheck), "threads=2") as pid:
        done = arenadump.run("summary", pid, "--mode=freeze", env=environment)
    assert done.returncode == code, done.stderr
    assert code == OK or "root has no permission to see its threads" in done.stderr


@pytest.mark.parametrize("words", [["x"], ["x", "other"]], ids=["main thread", "another thread"])
def test_neither_waits_for_the_other(arenadump: harness.Arenadump, words: list[str]) -> None:
    """An exec waits until the other threads have ended. A thread has not ended before its tracer has waited for it."""
    codes: Counter[int] = Counter()
    with executing(*words) as process:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline or (not (codes[OK] and codes[GONE]) and codes.total() < MOST_SNAPSHOTS):
            command = [str(arenadump.path), "summary", str(process.pid), "--json", "--mode=freeze"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
            codes[done.returncode] += 1
            assert done.returncode in {OK, GONE} or EXPECTED[done.returncode] in done.stderr, done.stderr
        assert codes[OK] > 0
