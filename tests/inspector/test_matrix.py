# SPDX-License-Identifier: MIT
"""aarch64: a thread that has something in the registers of SME is inspected, and not used.

A function is called with streaming mode and ZA off. A system call ends streaming mode, with all that its vectors held.
"""

from __future__ import annotations

import platform
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tools import harness, odd

NONE = 77  # the program's exit code: no SME
REFUSED = {"streaming": "in streaming mode (SME)", "za": "its ZA register (SME) is in use"}


@contextmanager
def holding(what: str) -> Iterator[int]:
    """A program that has it in its registers, and finds it there again in the end."""
    process = subprocess.Popen([odd.build("matrix"), what], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        if process.stdout.readline() != "ready\n":
            assert process.wait() == NONE
            pytest.skip("the processor or the kernel has no SME")
        odd.wait_for(lambda: odd.state(process.pid) == "R")
        yield process.pid
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
    finally:
        process.kill()
        process.wait()


if platform.machine() == "aarch64":  # elsewhere there is no test to be skipped

    @pytest.mark.parametrize("mode", ["auto", "freeze", "live"])
    @pytest.mark.parametrize("what", REFUSED)
    def test_sme_is_inspected(arenadump: harness.Arenadump, what: str, mode: str) -> None:
        with holding(what) as pid:
            arenadump.check("summary", "--mode", mode, pid)

    @pytest.mark.parametrize("what", REFUSED)
    def test_sme_by_snapshot(arenadump: harness.Arenadump, what: str) -> None:
        """A clone is a system call: ZA stays over it, streaming mode does not."""
        with holding(what) as pid:
            done = arenadump.run("summary", "--mode", "clone", pid)
            assert done.returncode == 0 or "streaming mode (SME)" in done.stderr, done
            assert what == "streaming" or done.returncode == 0, done

    @pytest.mark.parametrize("what", REFUSED)
    def test_sme_is_no_place_for_a_call(arenadump: harness.Arenadump, what: str) -> None:
        with holding(what) as pid:
            done = arenadump.run("inject", "--timeout", "2s", pid)
            assert done.returncode != 0
            assert REFUSED[what] in done.stderr, done
            assert odd.tracer(pid) == 0
