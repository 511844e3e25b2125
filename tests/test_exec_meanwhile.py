# SPDX-License-Identifier: MIT
"""Looks at a process of many threads that executes itself again and again, from its main thread or from another one."""

from __future__ import annotations

import subprocess
import time
from collections import Counter

import pytest
from tools import debian, harness, programs

SECONDS = 10
OK, DENIED, UNSUPPORTED, GONE = 0, 4, 5, 7
PATIENCE = 60
# On a busy machine; and where the first thread has ended, and another one is about to have its id.
EXPECTED = {DENIED: "was resumed after", UNSUPPORTED: "is a zombie"}


@pytest.mark.parametrize("words", [["x"], ["x", "other"]], ids=["main thread", "another thread"])
def test_neither_waits_for_the_other(arenadump: harness.Arenadump, words: list[str]) -> None:
    """While it executes itself, it waits for the end of its threads, and they for whoever is attached to them."""
    try:
        program = programs.build("execs_itself")
    except debian.UnavailableError as reason:
        pytest.skip(str(reason))
    codes: Counter[int] = Counter()
    with subprocess.Popen([str(program), *words]) as process:
        try:
            deadline = time.monotonic() + SECONDS
            while time.monotonic() < deadline or not codes[OK]:
                assert sum(codes.values()) < 1000
                command = [str(arenadump.path), "summary", str(process.pid), "--json", "--mode=freeze"]
                done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
                codes[done.returncode] += 1
                assert done.returncode in {OK, GONE} or EXPECTED[done.returncode] in done.stderr, done.stderr
            assert codes[GONE] > 0
            assert process.poll() is None
        finally:
            process.kill()
