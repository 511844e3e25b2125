# SPDX-License-Identifier: MIT
"""`arenascope run --leaks`: what each process of a command still holds at its exit()."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tools import harness, programs
from tools.stage import PATIENCE

from arenascope.errors import Code

LOST = 100  # by tests/programs/ending.cc
LOST_BY_CHILD = 50


@pytest.fixture(scope="module")
def ending() -> Path:
    return programs.build("ending", "-O0", "-pthread")


@pytest.fixture
def environment(arenadump: harness.Arenadump, agent: Path) -> dict[str, str]:
    """Returns the command's environment, with the programs of this build."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ARENASCOPE_")}
    return {**clean, "ARENASCOPE_ARENADUMP": str(arenadump.path), "ARENASCOPE_LIBRARY": str(agent)}


class Ended:
    """A command that has ended."""

    def __init__(self, environment: dict[str, str], *words: str | Path) -> None:
        command = [sys.executable, "-m", "arenascope", "run", "--leaks", *map(str, words)]
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        self.code, self.said, self.out = done.returncode, done.stderr, done.stdout

    @property
    def lost(self) -> list[int]:
        """Chunks that nothing leads to, of each process in turn."""
        return [
            int(found.replace(",", "")) for found in re.findall(r"lost: nothing points to them\s+([\d,]+)", self.said)
        ]


@pytest.mark.parametrize(("way", "code"), [("exit", 0), ("return", 3), ("thread", 0), ("replace", 0), ("closed", 0)])
def test_what_is_lost_is_said_at_the_end(ending: Path, environment: dict[str, str], way: str, code: int) -> None:
    """The map in a variable is destroyed by then, and its 1,000 objects are not lost."""
    ended = Ended(environment, "--", ending, way)
    assert (ended.code, ended.lost) == (code, [LOST])
    assert "(anonymous namespace)::Lost" in ended.said
    assert ended.out == ""


def test_a_child_of_fork_is_inspected_too(ending: Path, environment: dict[str, str]) -> None:
    """It has inherited what its parent had lost."""
    assert Ended(environment, "--", ending, "fork").lost == [LOST + LOST_BY_CHILD, LOST]


def test_exit_codes(ending: Path, environment: dict[str, str], tmp_path: Path) -> None:
    assert Ended(environment, "--fail-over", "1K", "--", ending, "exit").code == Code.LEAKS
    assert Ended(environment, "--fail-over", "1M", "--", ending, "exit").code == Code.OK
    assert Ended(environment, "--fail-over", "1K", "--", ending, "return").code == 3  # the command's own comes first
    known = tmp_path / "known"
    known.write_text("leak:Lost$\n")
    assert Ended(environment, "--fail-over", "1K", "--suppressions", known, "--", ending, "exit").code == Code.OK


@pytest.mark.parametrize(("way", "code", "word"), [("_exit", 0, "without exit()"), ("abort", 134, "signal 6")])
def test_an_end_that_nobody_sees_is_said(
    ending: Path, environment: dict[str, str], way: str, code: int, word: str
) -> None:
    ended = Ended(environment, "--", ending, way)
    assert (ended.code, ended.lost) == (code, [])
    assert word in ended.said
    limited = Ended(environment, "--fail-over", "0", "--", ending, way)
    assert limited.code == (code or Code.TARGET_GONE)


def test_a_limit_needs_a_snapshot(ending: Path, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "arenascope", "run", "--fail-over", "0", "--", str(ending), "exit"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == Code.USAGE
    assert "--leaks" in done.stderr


def test_a_script_that_runs_programs(ending: Path, environment: dict[str, str]) -> None:
    ended = Ended(environment, "--", "sh", "-c", '"$0" exit; "$0" return; exit 5', ending)
    assert ended.code == 5
    assert ended.lost.count(LOST) == 2


def test_a_signal_is_passed_on(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "arenascope", "run", "--leaks", "--", "sh", "-c", "echo here; exec sleep 1000"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as runner:
        assert runner.stdout
        runner.stdout.readline()
        runner.send_signal(signal.SIGTERM)
        assert ends(runner) == 128 + signal.SIGTERM


def ends(runner: subprocess.Popen[bytes]) -> int:
    """The exit code. One that does not end is killed, with its command: the tests go on."""
    try:
        return runner.wait(PATIENCE)
    finally:
        subprocess.run(["pkill", "-KILL", "-P", str(runner.pid)], check=False)
        runner.kill()


def test_a_signal_just_before_the_wait_is_passed_on(environment: dict[str, str]) -> None:
    shim = programs.build("just_before", "-shared", "-fPIC")
    command = [sys.executable, "-m", "arenascope", "run", "--leaks", "--", "sleep", "1000"]
    with subprocess.Popen(command, env={**environment, "LD_PRELOAD": str(shim)}, stderr=subprocess.PIPE) as runner:
        assert ends(runner) == 128 + signal.SIGTERM


def test_a_signal_while_the_command_is_started_is_passed_on(environment: dict[str, str]) -> None:
    answer = (
        "import signal, subprocess, sys\n"
        "class Popen(subprocess.Popen):\n"
        "    def __init__(self, command, **options):\n"
        "        super().__init__(command, **options)\n"
        "        signal.raise_signal(signal.SIGTERM)\n"
        "subprocess.Popen = Popen\n"
        "from arenascope.cli.main import run\n"
        "sys.argv[1:] = ['run', '--leaks', '--', 'sleep', '60']\n"
        "run()\n"
    )
    command = [sys.executable, "-c", answer]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as runner:
        runner.communicate(timeout=PATIENCE)  # the command has the pipes, too
        assert runner.returncode == 128 + signal.SIGTERM


# --- The agent's side -------------------------------------------------------------------------------------------------


def preloaded(agent: Path, name: str, log: Path) -> dict[str, str]:
    return {
        **os.environ,
        "LD_PRELOAD": str(agent),
        "ARENASCOPE_SIGNAL": "none",
        "ARENASCOPE_EXIT_LEAKS": name,
        "ARENASCOPE_LOG": str(log),
    }


@pytest.mark.parametrize("name", ["nobody-listens-at-this-name", "n" * 200])
def test_nobody_waits_for_nobody(ending: Path, agent: Path, tmp_path: Path, name: str) -> None:
    log = tmp_path / "log"
    done = subprocess.run([ending, "exit"], env=preloaded(agent, name, log), timeout=PATIENCE, check=False)
    assert done.returncode == 0
    assert "nobody inspects" in log.read_text() or "not the name of a socket" in log.read_text()


@pytest.mark.parametrize("end", ["close", "kill"])
def test_who_inspects_may_end(ending: Path, agent: Path, tmp_path: Path, end: str) -> None:
    """A process that waits goes on as soon as the one that listened is gone, before or after it has accepted."""
    text = (
        "import socket, sys, time\n"
        "listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "listener.bind(''); listener.listen(4)\n"
        "print(listener.getsockname()[1:].decode(), flush=True)\n"
        f"taken = listener.accept() if {end == 'close'} else None\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as who:
        assert who.stdin
        assert who.stdout
        name = who.stdout.readline().strip()
        with subprocess.Popen([ending, "exit"], env=preloaded(agent, name, tmp_path / "log")) as process:
            time.sleep(0.2)
            assert process.poll() is None
            if end == "kill":
                who.kill()
            else:
                who.stdin.close()
            assert process.wait(PATIENCE) == 0


def test_anybody_may_connect(environment: dict[str, str], tmp_path: Path) -> None:
    """What connects and says nothing, or is no process of the command, keeps nobody from ending."""
    text = (
        "import os, socket\n"
        "name = os.environ['ARENASCOPE_EXIT_LEAKS']\n"
        "many = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(20)]\n"
        "for one in many: one.connect(chr(0) + name)\n"
        "for one in many: one.send(b'x' * 1000)\n"
    )
    script = tmp_path / "script.py"
    script.write_text(text)
    ended = Ended(environment, "--", sys.executable, script)
    assert ended.code == 0
    assert len(ended.lost) >= 1
