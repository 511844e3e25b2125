# SPDX-License-Identifier: MIT
"""What an injection takes of a process that has a limit: its mappings, and that it has one thread."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools import harness, odd
from tools.command import arenascope
from tools.injection import DENIED, inject, line, loaded


@contextmanager
def few_mappings(left: int) -> Iterator[subprocess.Popen[str]]:
    """A process that may have so many more; in the end, it has never been refused one."""
    with subprocess.Popen(
        [str(odd.build("few_mappings")), str(left)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert line(process) == "ready\n"
            yield process
            out, _ = process.communicate("", timeout=60)
            assert out == "0 failed\n"
        finally:
            process.kill()


@pytest.mark.parametrize("left", [3, 20, 90])
def test_few_mappings(arenadump: harness.Arenadump, tmp_path: Path, left: int) -> None:
    with few_mappings(left) as process:
        for command in (["inject"], ["profile", "--for", "1ms", "-o", tmp_path / "dump"]):
            done = arenadump.run(*command, process.pid)
            assert done.returncode == DENIED, done
            assert "mappings that a process may have (vm.max_map_count)" in done.stderr
        assert not loaded(process.pid)


def test_mappings_for_the_agent_alone(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """It is loaded; the recorder needs more of them, whether the agent is there or not. By force it has them."""
    record = ("profile", "--for", "1ms", "-o", tmp_path / "dump")
    with few_mappings(110) as process:
        done = arenadump.run(*record, process.pid)
        assert done.returncode == DENIED, done
        assert "and 160 must be free: 96 for what is loaded" in done.stderr
        assert not loaded(process.pid)
        assert inject(arenadump, process.pid)["how"] == "loaded"
        done = arenadump.run(*record, process.pid)
        assert done.returncode == DENIED, done
        assert "and 128 must be free: 64 for what is loaded" in done.stderr
        arenadump.check(*record, "--force", "--timeout", "120s", process.pid)


def test_enough_mappings(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with few_mappings(170) as process:
        arenadump.check("profile", "--for", "1ms", "--timeout", "120s", "-o", tmp_path / "dump", process.pid)


@pytest.mark.parametrize("injected", [False, True])
def test_a_thread_more(arenadump: harness.Arenadump, injected: bool) -> None:  # noqa: FBT001
    """A process that the agent was loaded into has two threads from then on: the kernel refuses what takes one."""
    with subprocess.Popen(
        [str(odd.build("alone"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert line(process) == "ready\n"
            if injected:
                inject(arenadump, process.pid)
            out, _ = process.communicate("x", timeout=60)
            assert out == ("EINVAL\n" if injected else "alone\n")
        finally:
            process.kill()


@pytest.mark.parametrize("command", [["inject"], ["trim"], ["profile"]])
def test_the_help_says_so(arenadump: harness.Arenadump, command: list[str]) -> None:
    said = " ".join(arenadump.check(*command, "--help").split())
    assert "keeps a thread" in said


@pytest.mark.parametrize("command", [["inject"], ["trim"], ["profile"], ["profile", "take"], ["run"]])
def test_the_help_of_the_command_line_says_so(command: list[str]) -> None:
    done = arenascope(*command, "--help")
    assert "keeps a thread" in " ".join(done.stdout.split()), done
