# SPDX-License-Identifier: MIT
"""The agent in programs that have little: no room for files, few descriptors, another file where stderr was."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tools import harness
from tools.stage import PATIENCE, Stage, until

SECONDS = 2.5  # longer than the agent's thread ever waits


def agent_thread(pid: int) -> Path:
    """Returns the agent's thread in a process whose agent serves its control socket."""

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


REOPENS = """
import os, sys, time
os.close(2)
assert os.open("database", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600) == 2
os.write(2, b"page 1")
print("ready", flush=True)
sys.stdin.readline()
os.write(2, b"page 2")
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_file_that_has_got_the_number_of_stderr(stage: Stage, when: str) -> None:
    """Before or after the agent's thread was started, which keeps the true one."""
    code = REOPENS if when == "before" else f"import sys\nprint('first', flush=True)\nsys.stdin.readline()\n{REOPENS}"
    environment = stage.environment(ARENASCOPE_LOG="1")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        cwd=stage.folder,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
        bufsize=1,
    ) as child:
        assert child.stdin
        assert child.stdout
        if when == "after":
            assert child.stdout.readline() == "first\n"
            stage.ask(child.pid)
            child.stdin.write("\n")
        assert child.stdout.readline() == "ready\n"
        stage.ask(child.pid, 2 if when == "after" else 1)
        os.kill(child.pid, signal.SIGUSR2)  # what the thread says of the first is said before it serves the next
        stage.dump(child.pid, 3 if when == "after" else 2)
        (_, said) = child.communicate("\n", PATIENCE)
        assert child.returncode == 0
    assert (stage.folder / "database").read_bytes() == b"page 1page 2"
    assert len(re.findall("wrote .*dump", said)) >= (2 if when == "after" else 0)
    assert when == "after" or said == ""
