# SPDX-License-Identifier: MIT
"""kill -9 of a snapshot of the graph, and of its target, at any time: nobody is left stopped, and the end is said.

KILLS says how often; `make kills` does it 100 times for each command.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from pathlib import Path

import pytest
from soaks import soak
from tools import harness

KILLS = int(os.environ.get("KILLS", "3"))
PATIENCE = 120  # seconds
COMMANDS = ("leaks", "owners", "types", "why")
DONE, NONE, GONE = 0, 3, 7  # exit codes: docs/user-guide.md


def command_of(arenadump: harness.Arenadump, name: str, pid: int) -> list[str]:
    where = []
    if name == "why":
        lines = (line.split() for line in arenadump.check("chunks", pid).splitlines())
        # The largest is no block that comes and goes.
        _, chunk = max((int(words[1]), int(words[0], 16)) for words in lines if words[2] == "in_use")
        where = [hex(chunk + 0x10)]
    return [str(arenadump.path), name, "--json", str(pid), *where]


def take_snapshot(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def begun(selfcheck: Path, counts: soak.Counts) -> soak.Target:
    return soak.Target([str(selfcheck), "storm=2", "blocks=100000"], counts)


def longest(arenadump: harness.Arenadump, name: str, pid: int) -> float:
    """Seconds of a whole snapshot, on this machine now, and somewhat more."""
    start = time.monotonic()
    process = take_snapshot(command_of(arenadump, name, pid))
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == DONE, err
    assert json.loads(out)
    return 1.2 * (time.monotonic() - start)


@pytest.mark.nightly("kills")
@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_the_snapshot_is_killed(selfcheck: Path, arenadump: harness.Arenadump, name: str) -> None:
    """The target goes on, its blocks are whole, and no copy of it is left."""
    counts, chance = soak.Counts(), random.Random(name)
    target = begun(selfcheck, counts)
    try:
        most = longest(arenadump, name, target.pid)
        for _ in range(KILLS):
            process = take_snapshot(command_of(arenadump, name, target.pid))
            time.sleep(chance.uniform(0, most))
            process.kill()
            process.communicate()
            target.check_free(f"a killed {name}", arenadump)
        target.end()
        assert not counts.wrong, counts.first
    finally:
        target.process.kill()
        target.process.wait()


@pytest.mark.nightly("kills")
@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_the_target_is_killed(selfcheck: Path, arenadump: harness.Arenadump, name: str) -> None:
    """The answer is whole, or the target's end is the reason that is given."""
    counts, chance = soak.Counts(), random.Random(name)
    most, ends = 0.0, set()
    for number in range(KILLS):
        target = begun(selfcheck, counts)
        try:
            most = most or longest(arenadump, name, target.pid)
            process = take_snapshot(command_of(arenadump, name, target.pid))
            time.sleep(chance.uniform(0, most) if number else 0)
        finally:
            target.process.kill()
            target.process.wait()
        out, err = process.communicate(timeout=PATIENCE)
        ends.add(process.returncode)
        if process.returncode == DONE:
            assert json.loads(out)
            continue
        assert process.returncode in {NONE, GONE}, err
        assert not out
        assert err.startswith("arenadump: "), err
        assert str(target.pid) in err
    assert not counts.wrong, counts.first
    assert ends & {NONE, GONE}
