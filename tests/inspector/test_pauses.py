# SPDX-License-Identifier: MIT
"""--max-pause: which way to inspect it leads to, and that nobody stands still for longer, whatever the heap is like."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from soaks import soak
from tools import harness, programs
from tools.postures import ask, notes, posture

# An inspector that is to be too slow, on whatever machine, waits until its target has been let go. If nobody does so,
# it goes on then.
NEVER_MS = 240_000


@pytest.fixture(scope="module")
def wrecked() -> Iterator[subprocess.Popen[bytes]]:
    """A heap that takes seconds to inspect, for it was made to."""
    process = subprocess.Popen([programs.build("trap", "-lpthread"), "chain"], stdout=subprocess.PIPE)
    try:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def quiet() -> Iterator[subprocess.Popen[str]]:
    """A small heap: how long a snapshot of it takes is the inspector's doing alone."""
    with posture(programs.build("postures", "-lpthread"), "plain") as process:
        yield process


@pytest.fixture(scope="module")
def large() -> Iterator[soak.Target]:
    """60 MB, of which a freeze takes some 40 ms and a clone some 5."""
    program = programs.build_portable("selfcheck")
    counts = soak.Counts()
    target = soak.Target([str(program), "storm=1", "blocks=300000"], counts)
    yield target
    target.end()
    assert not counts.wrong, counts.first


def slow(pid: int) -> dict[str, str]:
    """The environment of an arenadump that reads nothing of the target while it stands still."""
    library = str(programs.build("slow_reads", "-shared", "-fPIC", "-ldl"))
    return {**os.environ, "LD_PRELOAD": library, "SLOW_READS": str(NEVER_MS), "SLOW_READS_TRACED": str(pid)}


def is_free(pid: int) -> bool:
    return "\nTracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text()


def test_auto_chooses_by_it(arenadump: harness.Arenadump, large: soak.Target) -> None:
    program = programs.build("postures", "-lpthread")
    with posture(program, "plain") as process:
        assert arenadump.summary(process.pid, "--max-pause", "60s")["snapshot"]["mode"] == "freeze"
        small = arenadump.summary(process.pid, "--max-pause=1ms")
        assert small["snapshot"]["mode"] == "live"
        assert small["snapshot"]["pause_ms"] == 0
        assert "is estimated to take" in notes(small)
        assert ask(process) == "seen 0, children none"
    assert arenadump.summary(large.pid, "--max-pause", "60s")["snapshot"]["mode"] == "freeze"
    assert arenadump.summary(large.pid, "--max-pause", "25ms")["snapshot"]["mode"] in ("clone", "live")
    assert arenadump.summary(large.pid, "--max-pause", "2ms")["snapshot"]["mode"] == "live"


def check_pause(summary: dict[str, Any], limit_ms: float) -> None:
    """It was let go by the supervisor; not when the inspector came round to it."""
    assert limit_ms <= summary["snapshot"]["pause_ms"] < NEVER_MS


def test_freeze_is_given_up(arenadump: harness.Arenadump, wrecked: subprocess.Popen[bytes]) -> None:
    done = arenadump.run("summary", "--mode=freeze", "--max-pause=20ms", wrecked.pid, env=slow(wrecked.pid))
    assert done.returncode == 4
    assert "resumed after 20.0 ms, before all of it was read" in done.stderr
    assert is_free(wrecked.pid)


def test_freeze_without_a_limit_is_given_up_too(arenadump: harness.Arenadump, quiet: subprocess.Popen[str]) -> None:
    """In proportion to the memory that there is to be read."""
    done = arenadump.run("summary", "--mode=freeze", quiet.pid, env=slow(quiet.pid))
    assert done.returncode == 4
    assert "before all of it was read" in done.stderr
    assert is_free(quiet.pid)


def test_auto_goes_on_with_a_clone(arenadump: harness.Arenadump, quiet: subprocess.Popen[str]) -> None:
    summary = json.loads(arenadump.check("summary", "--json", quiet.pid, env=slow(quiet.pid)))
    assert summary["snapshot"]["mode"] == "clone"
    assert "after 50.0 ms" in notes(summary)
    check_pause(summary, 50)
    assert is_free(quiet.pid)


@pytest.mark.parametrize(("limit", "reason"), [(4000, "after 2000.0 ms"), (4, "is estimated to take")])
def test_half_of_a_limit_is_for_a_clone(
    arenadump: harness.Arenadump, quiet: subprocess.Popen[str], tmp_path: Path, limit: int, reason: str
) -> None:
    """The limit is for the whole snapshot: 2 ms are not enough for a clone. The dump has nothing of the first."""
    words = ("dump", "--chunks", f"--max-pause={limit}ms", "-o", tmp_path / "dump", quiet.pid)
    arenadump.check(*words, env=slow(quiet.pid))
    summary = arenadump.summary(tmp_path / "dump")
    for_a_clone = limit > 4
    assert summary["snapshot"]["mode"] == ("clone" if for_a_clone else "live")
    assert summary["snapshot"]["exact"] is for_a_clone
    assert reason in notes(summary)
    check_pause(summary, limit / 2)
    assert is_free(quiet.pid)
