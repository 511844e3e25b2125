# SPDX-License-Identifier: MIT
"""Targets that name what harms who follows the name: descriptors, doors, files, sizes. Nothing is written but the target's own
memory, nothing is opened but regular files below the target's own root, and nothing is waited for without a limit."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tools import harness, odd

DENIED, UNSUPPORTED = 4, 5
PLENTY = 60  # seconds: more than any limit that a test sets, less than what was waited for without one


def hostile() -> str:
    return str(odd.build("hostile", f"-I{harness.ROOT}/inspector", f"-I{harness.ROOT}/inspector/include", "-lpthread"))


# --- What is written ---


@odd.needs_root
def test_a_descriptor_that_is_exchanged(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The library is written where it was meant to go, or nowhere: never to a file that the target may only read."""
    for folder in [tmp_path, *tmp_path.parents][:3]:
        folder.chmod(folder.stat().st_mode | 0o755)
    victim = tmp_path / "victim"
    content = b"only root may write this\n"
    victim.write_bytes(content)
    victim.chmod(0o644)
    codes = set()
    for _ in range(8):  # a race, which the target nearly always wins
        with odd.running(["setpriv", "--reuid=65534", "--clear-groups", hostile(), "swaps", str(victim)]) as pid:
            codes.add(arenadump.run("inject", pid).returncode)
            assert victim.read_bytes() == content
            assert odd.tracer(pid) == 0
    assert codes <= {0, DENIED, UNSUPPORTED}


def test_a_limit_on_the_size_of_files(arenadump: harness.Arenadump) -> None:
    """Refused: the kernel would end the process (SIGXFSZ) whose thread makes the library's file as large as it must be."""
    with odd.running(["prlimit", "--fsize=4096", str(odd.build("posing")), "idle"]) as pid:
        done = arenadump.run("inject", pid)
        assert done.returncode == UNSUPPORTED
        assert "no file larger than 4096 bytes (RLIMIT_FSIZE)" in done.stderr
        assert "arenascope-agent" not in Path(f"/proc/{pid}/maps").read_text()
        time.sleep(0.05)
        assert odd.state(pid) == "S"
        assert odd.tracer(pid) == 0
