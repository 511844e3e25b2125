# SPDX-License-Identifier: MIT
"""A process whose first thread has ended while others live: /proc/PID says that it is a zombie, and it is none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import debian, harness, programs
from tools.injection import inject
from tools.stage import PATIENCE, Stage

from arenascope.processes import all_processes, files_of, process_at
from arenascope.watch.process_group import OfCommand

BLOCKS = 3 * 2000 * 1000  # bytes that its threads allocate


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    program = programs.build("first_leaves")
    with subprocess.Popen([str(program)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()
            assert (fields[0], fields[17]) == ("Z", "4"), "it is as this test wants it"
            yield process
        finally:
            process.kill()


def arenascope(*arguments: str | int, arenadump: harness.Arenadump) -> str:
    command = [sys.executable, "-m", "arenascope", *map(str, arguments)]
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_a_process_like_others(process: subprocess.Popen[str]) -> None:
    found = process_at(process.pid)
    assert found
    assert not found.zombie
    assert found.rss * os.sysconf("SC_PAGE_SIZE") > BLOCKS // 2
    assert found.exe
    assert Path(found.exe).name == Path(found.cmdline).name
    assert Path(found.exe).name.startswith(found.comm)
    assert found.uid == os.geteuid()
    assert (files_of(process.pid) / "maps").read_text()
    assert process.pid in all_processes()
    assert process.pid in [each.pid for each in OfCommand(found.comm).members()]


def test_a_real_zombie_is_one() -> None:
    with subprocess.Popen(["true"]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        assert process_at(zombie.pid) is None
        assert all_processes(zombies=True)[zombie.pid].zombie


@pytest.mark.parametrize("mode", ["freeze", "clone", "live"])
def test_a_snapshot(process: subprocess.Popen[str], arenadump: harness.Arenadump, mode: str) -> None:
    answer = arenadump.summary(process.pid, f"--mode={mode}")
    assert answer["target"]["threads"] == 3
    assert answer["ledger"]["in_use"] > BLOCKS


def test_the_live_view_has_it(process: subprocess.Popen[str], arenadump: harness.Arenadump) -> None:
    answer = json.loads(arenascope("top", "--once", "--json", process.pid, arenadump=arenadump))
    assert [each["pid"] for each in answer["processes"]] == [process.pid]


def test_its_agent_answers(process: subprocess.Popen[str], arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """In turn: it is injected, found again, asked, and records."""
    for _ in range(2):
        arenadump.check("inject", process.pid)
    arenadump.check("trim", process.pid)
    arenadump.check("profile", process.pid, "--for", "1s", "-o", tmp_path / "dump")
    assert json.loads(arenadump.check("sites", "--json", tmp_path / "dump"))["hooks"] == "slots"


def test_a_signal_brings_its_dump(stage: Stage, arenadump: harness.Arenadump) -> None:
    """The handler reads the stack of the thread that it has interrupted. The first thread has no memory any more."""
    process = stage.start([str(programs.build("first_leaves"))])
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    assert arenadump.summary(stage.ask(process.pid))["ledger"]["in_use"] > BLOCKS


# --- What its end does ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def last_leaves(libc: debian.Libc) -> list[str]:
    """Its command, with the library that libc loads for pthread_exit()."""
    paths = f"{libc.directory}:{debian.libgcc()}"
    return [str(libc.loader), "--library-path", paths, str(programs.build_portable("last_leaves"))]


def first_leaves(stage: Stage, pid: int) -> None:
    os.kill(pid, signal.SIGUSR1)
    assert stage.marked("left") == pid


def check_end(stage: Stage, process: subprocess.Popen[bytes], *, its_mask: bool = True) -> None:
    """exit() has found the program as its own last thread would have."""
    stage.go()
    (out, _) = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (7, b"written by exit()\n"), stage.log()
    assert (stage.folder / "own").read_text() == "begun\nended\n"
    said = (stage.folder / "below" / "said").read_text()
    assert said == f"{int(signal.SIGUSR1)} blocked\n" or not its_mask


@pytest.mark.parametrize("threads", ["none", "policy", "record", "policy record"])
def test_exit_finds_the_program(
    stage: Stage, last_leaves: list[str], arenadump: harness.Arenadump, threads: str
) -> None:
    asked = {"ARENASCOPE_TRIM": "every=1h" * ("policy" in threads)}
    asked["ARENASCOPE_PROFILE_TRACE"] = "record" * ("record" in threads)
    process = stage.start(last_leaves, **asked)
    first_leaves(stage, stage.marked())
    check_end(stage, process)
    if "record" in threads:
        assert json.loads(arenadump.check("trace", stage.folder / "record", "--json"))["ended"] == "exit"


@pytest.mark.parametrize("when", ["before", "after", "fork"])
def test_exit_finds_the_program_that_was_asked_for_a_dump(stage: Stage, last_leaves: list[str], when: str) -> None:
    """Before its first thread ends, or after; also in a child of another thread."""
    process = stage.start([*last_leaves, when])
    pid = stage.marked()
    if when != "after":
        stage.ask(pid)
    first_leaves(stage, pid)
    if when == "after":
        stage.ask(pid)
    check_end(stage, process)


@pytest.mark.parametrize("through", ["first", "another", "another, later"])
def test_exit_finds_the_program_that_was_injected(
    stage: Stage, last_leaves: list[str], arenadump: harness.Arenadump, through: str
) -> None:
    process = stage.start([*last_leaves, "late" if through == "first" else ""], LD_PRELOAD="")
    pid = stage.marked()
    if through == "another, later":
        first_leaves(stage, pid)
    # Where it has the choice, arenadump takes no thread that waits in sigwait().
    assert (inject(arenadump, pid)["thread"] == pid) is (through == "first")
    if through != "another, later":
        first_leaves(stage, pid)
    arenadump.check("trim", pid)
    check_end(stage, process, its_mask=through == "first")
