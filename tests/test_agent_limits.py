# SPDX-License-Identifier: MIT
"""The agent in programs that have little: no room for files, few descriptors."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from pathlib import Path

import pytest
from tools import harness
from tools.stage import PATIENCE, Stage, until

SECONDS = 2.5  # longer than the agent's thread ever waits


def agent_thread(pid: int) -> Path:
    """Of a process whose agent serves its control socket."""

    def found() -> list[Path]:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [task for task in tasks if (task / "comm").read_text() == "arenascope\n"]

    (task,) = until(found, "no thread")
    return Path(task)


def used(task: Path) -> float:
    """Seconds of a processor."""
    fields = (task / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def sleeps(task: Path) -> None:
    """It uses next to no time of a processor; a thread that never waits uses all that it gets."""
    before = used(task)
    time.sleep(SECONDS)
    assert used(task) - before <= 0.1


def limit(pid: int, descriptors: int) -> None:
    (_, hard) = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (descriptors, hard))


@pytest.fixture
def idle(stage: Stage) -> int:
    """A program whose agent's thread runs, and has nothing to do."""
    process = stage.start(["sleep", "600"], ARENASCOPE_TRIM="every=1h")
    stage.logged("ready")
    return process.pid


@pytest.mark.parametrize("descriptors", [9, 1, 0])
def test_limit_below_what_the_agent_has_open(
    stage: Stage, idle: int, descriptors: int, arenadump: harness.Arenadump
) -> None:
    task = agent_thread(idle)
    limit(idle, descriptors)
    sleeps(task)
    if descriptors > 1:
        arenadump.check("policy", idle)
    limit(idle, 64)
    arenadump.check("policy", idle)
    stage.ask(idle)


def test_no_descriptor_is_left_for_a_client(idle: int, arenadump: harness.Arenadump) -> None:
    """Whom the agent cannot accept still waits, and is served when there are descriptors again."""
    task = agent_thread(idle)
    limit(idle, len(list((task / "fd").iterdir())))
    command = [str(arenadump.path), "policy", "--timeout", "60s", str(idle)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        time.sleep(0.5)
        sleeps(task)
        assert client.poll() is None
        limit(idle, 64)
        assert client.wait(PATIENCE) == 0


def test_table_of_the_unwinder_that_may_not_be_written(stage: Stage) -> None:
    """RLIMIT_FSIZE: the write fails, and its signal must not end the program."""
    done = subprocess.run(
        ["/bin/echo", "hello"],
        env=stage.environment(ARENASCOPE_PROFILE="1", HOME=str(stage.folder), XDG_CACHE_HOME="", ARENASCOPE_LOG=""),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")
    kept = [path.name for path in (stage.folder / ".cache/arenascope").iterdir()]
    assert all(name.endswith(".unwind2") for name in kept)
    assert not any(name.startswith(".") for name in kept)
