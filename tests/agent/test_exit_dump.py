# SPDX-License-Identifier: MIT
"""A program that asks for a dump of itself and ends at once: the dump is written first."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest
from tools import debian, harness, programs
from tools.odd import needs_root
from tools.stage import Stage

BLOCKS, SIZE = 1000, 4000
ASKED = str(int(signal.SIGUSR2))
ENDS = ("main", "thread", "short", "child", "leaves")
WORKER: dict[str, dict[str, str]] = {"none": {}, "runs": {"ARENASCOPE_TRIM": "every=1h"}}  # the agent's thread


@pytest.fixture
def program() -> Path:
    return programs.build_portable("asks_and_ends")


def ended(stage: Stage, command: list[str], **variables: str) -> list[Path]:
    """The dumps of a command that has ended, as it would without the agent."""
    process = stage.start(command, **variables)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return sorted(stage.folder.glob("*.dump"))


@pytest.mark.parametrize("how", [f"{how}-{worker}" for how in ENDS for worker in WORKER])
def test_what_was_asked_for_is_written(
    stage: Stage, libc: debian.Libc, program: Path, arenadump: harness.Arenadump, how: str
) -> None:
    end, worker = how.split("-")
    paths = f"{libc.directory}:{debian.libgcc()}"  # for pthread_exit
    command = [str(libc.loader), "--library-path", paths, str(program), ASKED, end]
    (dump,) = ended(stage, command, **WORKER[worker])
    answer = json.loads(arenadump.check("summary", dump, "--json"))
    assert answer["ledger"]["in_use"] >= BLOCKS * SIZE
    assert not list(stage.folder.glob("*.partial"))


def test_nobody_has_asked(stage: Stage, program: Path) -> None:
    """Then no thread is started at exit()."""
    assert ended(stage, [str(program), ASKED, "nobody"]) == []
    log = stage.folder / "log"
    assert not log.exists() or "ready" not in log.read_text()


def test_an_interpreter(stage: Stage, arenadump: harness.Arenadump) -> None:
    """One of which the last statement asks."""
    text = "import os, signal; kept = [bytes(3000) for _ in range(2000)]; os.kill(os.getpid(), signal.SIGUSR2)"
    (dump,) = ended(stage, [sys.executable, "-c", text])
    assert json.loads(arenadump.check("summary", dump, "--json"))["target"]["comm"].startswith("python")


@needs_root
def test_a_sandbox_without_threads(stage: Stage, program: Path) -> None:
    """No thread may be started: the log says so, and the process does not wait."""
    command = [str(programs.build("hardened")), "threads", str(program), ASKED, "main"]
    assert ended(stage, command) == []
    assert "no thread could be started" in (stage.folder / "log").read_text()


def test_a_dump_that_cannot_be_written(stage: Stage, program: Path) -> None:
    """The process ends, and the log says why."""
    process = stage.start([str(program), ASKED, "main"], ARENASCOPE_OUT="/nowhere/dump")
    assert process.wait(60) == 0
    assert "no dump: " in (stage.folder / "log").read_text()


def test_many_at_once(stage: Stage, program: Path) -> None:
    """Each process writes its own."""
    processes = [stage.start([str(program), ASKED, "main"]) for _ in range(20)]
    assert [process.wait(120) for process in processes] == [0] * 20
    assert len(list(stage.folder.glob("*.dump"))) == 20
