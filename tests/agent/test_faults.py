# SPDX-License-Identifier: MIT
"""Nothing that runs code in a thread of a program harms one that uses faults all the time: see docs/injection.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools import faulting, harness
from tools.injection import inject

# The build before harmed one of four of the C programs, and one of six of the others.
TIMES = {"mends": 20, "jumps": 20, "node": 10, "go": 10, "java": 6}


@pytest.mark.slow
@pytest.mark.parametrize("kind", faulting.KINDS)
def test_an_agent_is_carried_in(arenadump: harness.Arenadump, tmp_path: Path, kind: str) -> None:
    """By inject, record and trim, each into a process of its own; then again."""
    for number in range(TIMES[kind]):
        with faulting.running(kind) as pid:
            if number % 3 == 0:
                assert inject(arenadump, pid)["how"] == "loaded"
            if number % 3 < 2:
                arenadump.check("profile", "--for", "20ms", "--timeout", "120s", "-o", tmp_path / "dump", pid)
            arenadump.check("trim", "--deep", "--timeout", "120s", pid)


@pytest.mark.parametrize("kind", faulting.KINDS)
def test_a_clone_is_made_and_reaped(arenadump: harness.Arenadump, kind: str) -> None:
    with faulting.running(kind) as pid:
        for _ in range(TIMES[kind]):
            seen = json.loads(arenadump.check("summary", "--json", "--mode", "clone", pid))["snapshot"]
            assert seen["mode"] == "clone"
