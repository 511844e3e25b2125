# SPDX-License-Identifier: MIT
"""The file of the agent's log: it is added to only where it is the program's user's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools import harness

SAID = "ARENASCOPE_SIGNAL"


def run(log: Path) -> None:
    """A program whose agent has something to say."""
    agent = harness.agent_path(harness.arenadump_path())
    environment = {**os.environ, "LD_PRELOAD": str(agent), "ARENASCOPE_LOG": str(log), "ARENASCOPE_SIGNAL": "nonsense"}
    subprocess.run(["true"], env=environment, check=True, timeout=240)


def command(log: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(harness.arenadump_path().resolve())}
    words = [sys.executable, "-m", "arenascope", "run", "--log", str(log), "--", "true"]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=240)


def test_a_log_of_our_own_is_added_to(tmp_path: Path) -> None:
    log = tmp_path / "log"
    run(log)
    once = log.read_text()
    assert SAID in once
    run(log)
    assert log.read_text().count(SAID) == 2 * once.count(SAID)
    assert command(log).returncode == 0


@pytest.mark.parametrize("kind", ["mode", "owner", "hard link", "symlink", "fifo"])
def test_a_log_that_is_not(tmp_path: Path, kind: str) -> None:
    log, victim = tmp_path / "log", tmp_path / "victim"
    victim.write_text("something else\n")
    if kind == "symlink":
        log.symlink_to(victim)
    elif kind == "hard link":
        log.hardlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(log)  # without a reader: an open for writing waits
    else:
        log.touch()
        log.chmod(0o666 if kind == "mode" else 0o600)
        if kind == "owner":
            if os.geteuid() != 0:
                pytest.skip("only root can give a file to another user")
            os.chown(log, 65534, 65534)
    run(log)
    assert victim.read_text() == "something else\n"
    assert kind == "fifo" or SAID not in log.read_text()
    refused = command(log)
    assert refused.returncode == 8, refused.stderr
    assert "will not write its log" in refused.stderr


def test_a_reader_of_a_fifo_gets_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    os.mkfifo(log)
    reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    run(log)
    assert os.read(reader, 100) == b""
    os.close(reader)
