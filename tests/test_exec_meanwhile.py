# SPDX-License-Identifier: MIT
"""Looks at a process of many threads that executes itself again and again, from its main thread or from another one."""

from __future__ import annotations

import subprocess
import time
from collections import Counter

import pytest
from tools import debian, harness, programs

SECONDS = 10
OK, DENIED, GONE = 0, 4, 7
PATIENCE = 60
MOST_LOOKS = 1000
EXPECTED = {DENIED: "was resumed after"}  # on a busy machine


@pytest.mark.parametrize("words", [["x"], ["x", "other"]], ids=["main thread", "another thread"])
def test_neither_waits_for_the_other(arenadump: harness.Arenadump, words: list[str]) -> None:
    """An exec waits until the other threads have ended. A thread has not ended before its tracer has waited for it."""
    try:
        program = programs.build("execs_itself")
    except debian.UnavailableError as reason:
        pytest.skip(str(reason))
    codes: Counter[int] = Counter()
    with subprocess.Popen([str(program), *words]) as process:
        try:
            deadline = time.monotonic() + SECONDS
            while time.monotonic() < deadline or (not (codes[OK] and codes[GONE]) and codes.total() < MOST_LOOKS):
                command = [str(arenadump.path), "summary", str(process.pid), "--json", "--mode=freeze"]
                done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
                codes[done.returncode] += 1
                assert done.returncode in {OK, GONE} or EXPECTED[done.returncode] in done.stderr, done.stderr
            assert codes[OK] > 0
            assert process.poll() is None
        finally:
            process.kill()
