# SPDX-License-Identifier: MIT
"""CPython's interpreters with arenas of their own (3.12 on), found from outside, held against what each says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from runtimes.test_python_arenas import Says
from tools import cores, harness, interpreters, tiers

INTERPRETERS = 20
# Each interpreter says what its allocator has when it has made all it makes, and does nothing more.
PROGRAM = f"""
import sys
try:
    import _interpreters
    create, run = lambda: _interpreters.create("isolated"), _interpreters.exec
except ImportError: # 3.12
    import _xxsubinterpreters
    create, run = _xxsubinterpreters.create, _xxsubinterpreters.run_string
made = [create() for i in range({INTERPRETERS})]
kept = [str(i) * 3 for i in range(100000)]
for i, interpreter in enumerate(made):
    code = "import sys; kept = [{{i: i}} for i in range(5000 * %d)]; " % (i + 1)
    code += "print('says', file=sys.stderr, flush=True); "
    assert run(interpreter, code + "sys._debugmallocstats()") is None
print("says", file=sys.stderr, flush=True)
sys._debugmallocstats()
print("ready", flush=True)
sys.stdin.readline()
"""


@contextmanager
def running(release: str, scratch: Path) -> Iterator[tuple[int, list[Says]]]:
    """The PID, and what the interpreters said: the first one last."""
    python = interpreters.python(release)
    modules = [] if release in interpreters.OTHER_PYTHONS else [interpreters.modules(release)]
    environment = {**python.environment, "PYTHONPATH": os.pathsep.join(map(str, modules))}
    pipe = subprocess.PIPE
    with (
        (scratch / "says").open("wb") as says,
        subprocess.Popen(
            python.command("-c", PROGRAM), env=environment, stdin=pipe, stdout=pipe, stderr=says
        ) as process,
    ):
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n", (scratch / "says").read_text()
            yield process.pid, [Says(text) for text in (scratch / "says").read_text().split("says\n")[1:]]
        finally:
            process.kill()


# No suite of Debian has 3.12; without a developer's, tests/hostile/test_forged_python.py has its structures.
RELEASES = [
    release for release in ("3.12", "3.13", "3.14") if release != "3.12" or release in interpreters.OTHER_PYTHONS
]


@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_arenas_of_all_interpreters(release: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with running(release, tmp_path) as (pid, says):
        snapshots = [arenadump.summary(pid, f"--mode={mode}") for mode in ("freeze", "clone")]
        snapshots += [arenadump.summary(pid, "--objects"), arenadump.summary(cores.gcore(pid, tmp_path))]
    assert len(says) == INTERPRETERS + 1
    for summary in snapshots:
        (found,) = summary["runtimes"]
        assert found["found"]
        assert found["regions"] == sum(each.number("arenas allocated current") for each in says)
        # Each has freed what the printing took.
        printed = sum(each.number("bytes in allocated blocks") for each in says)
        assert abs(found["in_use"] - printed) < 10000 * len(says)
        assert not [w for w in summary["warnings"] if "interpreters" in w["text"]]
    types = {each["name"]: each for each in snapshots[2]["runtimes"][0]["objects"]["types"]}
    assert types["dict"]["count"] >= 5000 * INTERPRETERS * (INTERPRETERS + 1) // 2
